"""The HTTP routes of the server, but for the OpenAI ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ddtune.sim.engine import info, params
from ddtune.sim.engine.auth import refusal
from ddtune.sim.engine.checks import check
from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.generate import Generation, chunks, sse
from ddtune.sim.engine.health import health
from ddtune.sim.engine.openai_api import OpenAi
from ddtune.sim.engine.params import RefusedError
from ddtune.sim.engine.web import Request, Response
from ddtune.sim.withheld import withheld

Route = Callable[[Request], Awaitable[Response]]
EVENT_STREAM = "text/event-stream; charset=utf-8"
FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)


class Api:
    """Answers requests to one engine, counts them and writes the access log."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        openai = OpenAi(engine)
        self._routes: dict[str, tuple[tuple[str, ...], Route]] = {
            "/ready": (("GET",), self._ready),
            "/health": (("GET",), self._health),
            "/health_generate": (("GET",), self._health),
            "/model_info": (("GET",), self._read(info.model_info)),
            "/get_model_info": (("GET",), self._read(info.model_info)),
            "/server_info": (("GET",), self._server_info),
            "/get_server_info": (("GET",), self._server_info),
            "/v1/loads": (("GET",), self._read(info.loads)),
            "/v1/models": (("GET",), self._read(info.models)),
            "/metrics": (("GET",), self._metrics),
            "/generate": (("POST", "PUT"), self._generate),
            "/v1/completions": (("POST",), openai.completions),
            "/v1/chat/completions": (("POST",), openai.chat),
            "/flush_cache": (("GET", "POST"), self._flush_cache),
            "/abort_request": (("GET", "POST"), self._abort_request),
            "/pause_generation": (("POST",), self._pause),
            "/continue_generation": (("POST",), self._continue),
            "/freeze_gc": (("GET", "POST"), self._freeze_gc),
            "/set_internal_state": (("POST", "PUT"), self._set_internal_state),
        }

    async def handle(self, request: Request) -> Response:
        """The answer to ``request``, whatever it is."""
        counted, key = self.engine.counters, (request.method, request.path)
        counted.http[key] += 1
        counted.active[key] += 1
        try:
            response = await self._answer(request)
        finally:
            counted.active[key] -= 1
        counted.responses[(*key, response.status)] += 1
        query = "?" + "&".join(f"{k}={v}" for k, vs in request.query.items() for v in vs) if request.query else ""
        self.engine.log.access(request.peer, request.method, request.path + query, response.status)
        return response

    async def _answer(self, request: Request) -> Response:
        refused = refusal(request, self.engine.launch.args)
        if refused is not None:
            return refused
        methods, route = self._routes.get(request.path, ((), None))
        if route is None:
            return Response.of_json({"detail": "Not Found"}, 404)
        if request.method not in methods:
            return Response.of_json({"detail": "Method Not Allowed"}, 405)
        try:
            return await route(request)
        except RefusedError as error:
            return Response.of_json({"error": {"message": str(error)}}, 400)
        except ValueError as error:
            return bad_request(str(error))

    def _read(self, what: Callable[[Engine], dict[str, Any]]) -> Route:
        async def route(_request: Request) -> Response:
            return Response.of_json(what(self.engine))

        return route

    async def _ready(self, _request: Request) -> Response:
        engine = self.engine
        up = not (engine.starting or engine.stopping or engine.paused or engine.unhealthy)
        return Response(200 if up else 503)

    async def _health(self, _request: Request) -> Response:
        return Response(await health(self.engine))

    async def _server_info(self, _request: Request) -> Response:
        # It asks the scheduler, so it does not come back while that hangs.
        if self.engine.hung or self.engine.frozen_ranks:
            self.engine.moving.clear()
            await self.engine.moving.wait()
        return Response.of_json(info.server_info(self.engine))

    async def _metrics(self, _request: Request) -> Response:
        folder = self.engine.settings.state.parent if self.engine.settings.state else None
        if not self.engine.launch.args["enable_metrics"] or withheld(folder, "metrics"):
            return Response.of_json({"detail": "Not Found"}, 404)
        return Response(200, info.metrics(self.engine).encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def _generate(self, request: Request) -> Response:
        engine = self.engine
        body = request.json()
        asks = params.from_generate(body)
        for ask in asks:
            check(engine, ask)
        if len(asks) > 1 and asks[0].stream:
            return bad_request("The simulated engine does not stream a list of texts.")
        made = [Generation(engine, ask) for ask in asks]
        if asks[0].stream:
            return Response(200, content_type=EVENT_STREAM, chunks=self._stream(made[0]))
        answers = [await one.whole() for one in made]
        return Response.of_json(answers if isinstance(body.get("text"), list) else answers[0])

    async def _stream(self, made: Generation) -> AsyncIterator[bytes]:
        async for produced in chunks(made):
            yield sse(made.body(produced))
        yield b"data: [DONE]\n\n"

    async def _flush_cache(self, _request: Request) -> Response:
        engine = self.engine
        flushed = engine.flush()
        engine.log.rank(
            "Cache flushed successfully!"
            if flushed
            else "Cache not flushed because there are pending requests. "
            f"#queue-req: {engine.batch.queued}, #running-req: {engine.batch.running}"
        )
        return Response.of_text(FLUSHED, 200 if flushed else 400)

    async def _abort_request(self, request: Request) -> Response:
        body = request.json() or {}
        rid, everything = str(body.get("rid") or ""), bool(body.get("abort_all"))
        if rid or everything:
            self.engine.abort(lambda job: everything or job.rid.startswith(rid))
        return Response(200)

    async def _pause(self, request: Request) -> Response:
        body = request.json() or {}
        mode = body.get("mode", "abort")
        if mode not in ("abort", "in_place", "retract"):
            return bad_request(f"Input should be 'abort', 'in_place' or 'retract': {mode!r}")
        if mode == "abort":
            self.engine.abort(lambda _job: True)
        self.engine.look()
        self.engine.paused = True
        self.engine.look()
        return Response.of_json({"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, _request: Request) -> Response:
        self.engine.look()
        self.engine.paused = False
        self.engine.look()
        return Response.of_json({"message": "Generation continued successfully.", "status": "ok"})

    async def _freeze_gc(self, _request: Request) -> Response:
        return Response.of_text("Garbage collection frozen.\n")

    async def _set_internal_state(self, request: Request) -> Response:
        request.json()
        return Response.of_json({"updated": False, "server_args": {}})


def bad_request(message: str) -> Response:
    """A 400 in the shape of the server's own validation errors."""
    return Response.of_json(
        {"object": "error", "message": message, "type": "Bad Request", "param": None, "code": 400}, 400
    )
