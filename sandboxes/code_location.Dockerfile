# The code location for a Dagster that runs elsewhere: one study, served over gRPC. From the checkout:
#
#   git archive HEAD | docker build -f sandboxes/code_location.Dockerfile -t trace-code-location -
#   docker run -p 4000:4000 -v trace-home:/trace -e DAGSTER_POSTGRES_URL=... trace-code-location
#
# For training in this image build it with --build-arg EXTRAS=[train]. Docker inside is not needed where
# sandbox.backend is "bubblewrap"; for Docker's sandbox mount the socket of the host.
ARG BASE_IMAGE=python:3.11-slim
FROM ${BASE_IMAGE}
ARG EXTRAS=
WORKDIR /opt/trace
COPY pyproject.toml setup.py MANIFEST.in constraints.txt README.md LICENSE ./
COPY trace_assets trace_assets
COPY sandboxes sandboxes
COPY sql sql
RUN python3 -m pip install --no-cache-dir -c constraints.txt ".${EXTRAS}"
ENV TRACE_HOME=/trace
VOLUME /trace
EXPOSE 4000
CMD ["dagster", "code-server", "start", "-h", "0.0.0.0", "-p", "4000", "-m", "trace_assets.definitions", "--location-name", "trace_assets.definitions"]
