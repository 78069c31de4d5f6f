"""The MCP server: passes the requests of each connection to its session.

Each connection has its own session, so the server supports only protocol versions with connections. Clients of later
versions fall back to these.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from mcp import MCPError
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.types import (
    INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    Tool,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from render_agent import __version__
from render_agent.environments.world import World
from render_agent.errors import RenderAgentError
from render_agent.mcp_server.session import INSTRUCTIONS, Block, Session
from render_agent.util.reasons import truncate

Context = ServerRequestContext[Any, Any]

PNG = "image/png"
MAX_NAME_CHARS = 100  # limit on a client's name and version, and on names quoted in errors


class ConnectionSession:
    """The session of a connection. Its calls run in threads, one at a time."""

    def __init__(self, session: Session, limiter: anyio.CapacityLimiter) -> None:
        self.session = session
        self._limiter = limiter
        self._lock = anyio.Lock()

    async def run(self, work: Callable[[], Any]) -> Any:
        """Return the result of `work`, which uses the session."""
        async with self._lock:
            return await anyio.to_thread.run_sync(work, limiter=self._limiter)


def make_server(world: World, transport: str) -> Server[Any]:
    """Return the server for the questions of a world."""
    handlers = Handlers(world, transport)
    server: Server[Any] = Server(
        "render_agent",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_read_resource=handlers.read_resource,
    )
    server.middleware.append(_need_connection)
    return server


class Handlers:
    """Answers the requests of all connections."""

    def __init__(self, world: World, transport: str) -> None:
        self.world = world
        self.transport = transport
        self._limiter: anyio.CapacityLimiter | None = None

    def _session(self, context: Context) -> ConnectionSession:
        """Return the session of a connection; it is created at first use and closed with the connection."""
        connection = _connection_of(context)
        session: ConnectionSession | None = connection.state.get("session")
        if session is None:
            if self._limiter is None:
                is_parallel = self.world.is_parallel
                self._limiter = anyio.CapacityLimiter((os.cpu_count() or 1) if is_parallel else 1)
            new_session = Session(self.world, self._client(context))
            session = connection.state["session"] = ConnectionSession(new_session, self._limiter)
            connection.exit_stack.push_async_callback(session.run, new_session.close)
        return session

    def _client(self, context: Context) -> dict[str, Any]:
        """Return the name, version, protocol and transport of the client, for the run record."""
        name, version = "unknown", ""
        if (params := context.session.client_params) is not None:
            name, version = params.client_info.name, params.client_info.version
        return {
            "name": truncate(name, MAX_NAME_CHARS),
            "version": truncate(version, MAX_NAME_CHARS),
            "protocol": context.protocol_version,
            "transport": self.transport,
        }

    async def list_tools(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Return the tools that are possible in the run."""
        tools = [
            Tool(
                name=tool["name"], description=tool["description"], input_schema=tool["parameters"]
            )
            for tool in self._session(context).session.tools
        ]
        return ListToolsResult(tools=tools)

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Call a tool of the connection's session."""
        session = self._session(context)
        if params.name not in [tool["name"] for tool in session.session.tools]:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {truncate(params.name, MAX_NAME_CHARS)}")
        call = partial(session.session.call, params.name, params.arguments or {})
        try:
            blocks = await session.run(call)
        except RenderAgentError as error:
            return CallToolResult(content=[_content(str(error))], is_error=True)
        return CallToolResult(content=[*map(_content, blocks)])

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return the images that the session has shown."""
        uris = self._session(context).session.uris
        resources = [Resource(name=uri.rpartition("/")[2], uri=uri, mime_type=PNG) for uri in uris]
        return ListResourcesResult(resources=resources)

    async def read_resource(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """Return an image that the session has shown."""
        session = self._session(context)
        try:
            png = await session.run(partial(session.session.read, params.uri))
        except KeyError:
            message = f"Unknown resource: {truncate(params.uri, MAX_NAME_CHARS)}"
            raise MCPError(INVALID_PARAMS, message) from None
        contents = BlobResourceContents(uri=params.uri, mime_type=PNG, blob=_base64(png))
        return ReadResourceResult(contents=[contents])


def _connection_of(context: Context) -> Connection:
    """Return the connection of a request, whose `state` and `exit_stack` last as long as the client is connected.

    mcp 2.3 keeps it in a private attribute: its public `Context.connection` is not what handlers get (see the docstring
    of `mcp.server.context.Context`).
    """
    connection: Connection = context.session._connection
    return connection


async def _need_connection(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Reject protocol versions without connections; the error lists the supported ones."""
    if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        data = {"supported": [*HANDSHAKE_PROTOCOL_VERSIONS], "requested": ctx.protocol_version}
        raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "Sessions need a connection.", data)
    return await call_next(ctx)


def _content(block: Block) -> ContentBlock:
    if isinstance(block, str):
        return TextContent(text=block)
    return ImageContent(data=_base64(block.png), mime_type=PNG)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
