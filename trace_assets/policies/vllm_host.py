"""vLLM's engine inside this process: on a thread and event loop of its own, ended with all it started."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.policies.vllm_engine import engine_arguments, engine_variables
from trace_assets.system.processes import variables
from trace_assets.system.vllm import Launch, last_words

CLOSE_SECONDS = 10.0
"""How long the engine's processes may take to end before they are killed."""

T = TypeVar("T")


class VllmHost:
    """An `AsyncLLM`, which belongs to one event loop, for callers on any loop or on none.

    The engine's core and its workers are children of this process: they end when it is closed, garbage
    collected, or when this process ends, a kill included. What they log goes to a file.

    Args:
        launch: The base model and how it is served. Of its adapters only number and ranks are used: `add`
            loads them. What only a server knows (address, parsers) is passed over.
        mixture: The base model is a mixture of experts.

    Raises:
        InputError: vLLM refuses an argument.
        Unavailable: The engine does not start; the log's last words say why.

    Attributes:
        folder: A temporary folder, for the log and whatever lives as long as the engine.
        dtype: The numbers that the engine computes in, such as `float32`.
        max_context: Longest conversation in tokens that it takes.
    """

    def __init__(self, launch: Launch, *, mixture: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trace-vllm-"))
        self.log = self.folder / "log"
        self.dtype, self.max_context = "", 0
        self._requests = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        thread.start()
        # Holds no reference to this object: it runs when this object goes, and at the latest at exit.
        self._ending = _Ending(self._loop, thread, self.folder)
        self._finalizer = weakref.finalize(self, self._ending)
        try:
            self.wait(self._start(launch, mixture))
        except BaseException:
            self._ending.keep_folder = True  # with the log, which the message names
            self.close()
            raise

    async def _start(self, launch: Launch, mixture: bool) -> None:
        import psutil

        with variables(**engine_variables(launch, self.folder, self.log)):
            from vllm.v1.engine.async_llm import AsyncLLM
            from vllm.v1.executor.abstract import Executor

            from trace_assets.policies.vllm_child import mortal

            arguments = engine_arguments(launch, mixture)
            before = set(multiprocessing.active_children())
            try:
                config = arguments.create_engine_config()
                self._ending.engine = AsyncLLM(
                    vllm_config=config,
                    executor_class=mortal(Executor.get_class(config)),
                    log_stats=False,
                    log_requests=False,
                )
            except Exception as error:
                raise Unavailable(
                    f"vLLM's engine does not start with {launch.model}{last_words(self.log)}"
                ) from error
            finally:
                started = [child.pid for child in multiprocessing.active_children() if child not in before]
                self._ending.children = [psutil.Process(pid) for pid in started if psutil.pid_exists(pid)]
            # What a machine cannot do (a head width without a kernel) may show with the first token only.
            await self.sample([0], None, temperature=0.0, max_tokens=1)
            self.dtype = str(config.model_config.dtype).removeprefix("torch.")
            self.max_context = int(config.model_config.max_model_len)

    async def sample(
        self, ids: Sequence[int], adapter: Any, **sampling: Any
    ) -> tuple[list[int], list[float]]:
        """Continue ids; call it through `ask` or `wait`.

        Args:
            ids: The prompt.
            adapter: A `LoRARequest`, None for the base model.
            sampling: Of vLLM's `SamplingParams`.

        Returns:
            The sampled ids, and the log-probability of each.

        Raises:
            InputError: vLLM refuses the request.
            Unavailable: The engine is dead or failed.
        """
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY, **sampling
        )
        prompt = TokensPrompt(prompt_token_ids=list(ids))
        answers = self._ending.engine.generate(
            prompt, params, f"{next(self._requests)}", lora_request=adapter
        )
        try:
            found = [answer async for answer in answers][-1:]  # one, the whole
        except Exception as error:
            raise self._told(error) from error
        if not found or not found[0].outputs:
            raise Unavailable("vLLM's engine gave no answer; run again.")
        written = found[0].outputs[0]
        logprobs = [
            one[token].logprob for token, one in zip(written.token_ids, written.logprobs, strict=True)
        ]
        return list(written.token_ids), logprobs

    async def add(self, adapter: Any) -> None:
        """Load an adapter, so that one that cannot be loaded is known before it is asked for.

        Raises:
            InputError: vLLM refuses it.
        """
        try:
            loaded = await self._ending.engine.add_lora(adapter)
        except Exception as error:
            told = self._told(error)
            if isinstance(told, Unavailable) and not self._ending.engine.errored:
                told = InputError(f"vLLM refuses the adapter in {adapter.lora_path}: {_first_line(error)}")
            raise told from error
        if not loaded:
            raise InputError(f"vLLM refuses the adapter in {adapter.lora_path}; its log: {self.log}.")

    async def remove(self, adapter: Any) -> None:
        """Forget an adapter."""
        try:
            await self._ending.engine.remove_lora(adapter.lora_int_id)
        except Exception as error:
            raise self._told(error) from error

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine done on the engine's loop; cancelling the caller cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._alive(work)))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have a coroutine done on the engine's loop and wait for it, outside of any loop."""
        return asyncio.run_coroutine_threadsafe(work, self._alive(work)).result()

    def close(self) -> None:
        """End the engine and all its processes; may be called twice."""
        self._finalizer()

    def _alive(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        if self._finalizer.alive:
            return self._loop
        work.close()
        raise Unavailable("vLLM's engine was closed; open the policy again.")

    def _told(self, error: Exception) -> TraceError:
        """Return what a person is told of an error of the engine's."""
        if isinstance(error, TraceError):
            return error
        if self._ending.engine.errored:
            self._ending.keep_folder = True
            return Unavailable(
                f"vLLM's engine died{last_words(self.log) or '.'} Run again: what is finished is kept."
            )
        if isinstance(error, ValueError):
            return InputError(f"vLLM refuses a request: {_first_line(error)}")
        return Unavailable(f"vLLM's engine failed: {_first_line(error.__cause__ or error)}")


class _Ending:
    """Ends an engine: called once, by whoever comes first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread, folder: Path) -> None:
        self.engine: Any = None
        self.children: list[Any] = []
        self.keep_folder = False
        self._loop, self._thread, self._folder = loop, thread, folder
        self._owner = os.getpid()

    def __call__(self) -> None:
        if os.getpid() != self._owner:  # a fork has the object, and none of the threads
            return
        import psutil

        family = [*self.children]
        for child in self.children:
            with suppress(psutil.Error):
                family += child.children(recursive=True)
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)
        self._thread.join(2 * CLOSE_SECONDS)
        _, alive = psutil.wait_procs(family, timeout=0.5 if self.engine is None else CLOSE_SECONDS)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, timeout=5.0)
        self.engine = None
        if not self._thread.is_alive():
            self._loop.close()
        if not self.keep_folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _shut_down(self) -> None:
        with suppress(Exception):  # whatever it leaves is killed
            if self.engine is not None:
                self.engine.shutdown(timeout=CLOSE_SECONDS)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        self._loop.stop()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0].rstrip('.')}."
