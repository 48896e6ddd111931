# What trains in a container (training.launcher = "docker"): this package with its train extra. From the checkout:
#
#   git archive HEAD | docker build -f sandboxes/trainer.Dockerfile -t trace-training -
#
# That has torch as pip gives it, which brings CUDA; for CPUs alone add, before the last dash,
#
#   --build-arg TORCH=torch==2.13.0+cpu --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu
#
# The step refuses an image of other training code than its own: build it again with each new version.
ARG BASE_IMAGE=python:3.11-slim
FROM ${BASE_IMAGE}
ARG TORCH=torch==2.13.0
ARG TORCH_INDEX=https://pypi.org/simple
WORKDIR /opt/trace
COPY pyproject.toml setup.py MANIFEST.in constraints.txt README.md LICENSE ./
COPY trace_assets trace_assets
COPY sandboxes sandboxes
COPY sql sql
RUN python3 -m pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" "$TORCH" \
    && python3 -m pip install --no-cache-dir -c constraints.txt ".[train]"
# The step gives user, command and folders; nothing here is written to.
CMD ["python3", "-c", "import trace_assets; print('started by the step of an adapter: training.launcher = \"docker\"')"]
