"""Puts calls to an MCP server with the protocol's own client: client.py MODE < JSON

MODE: `auto` or `legacy`, the protocol's versions. JSON: `command` (a list, on stdio) or `url` and `token`; and `calls`, a list of
[tool, arguments]. Prints JSON: the tools, and for each call its texts, its structure, and whether it is an error.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def main():
    asked = json.load(sys.stdin)
    if "command" in asked:
        program, *arguments = asked["command"]
        server = StdioServerParameters(command=program, args=arguments)
    else:
        headers = {"Authorization": f"Bearer {asked['token']}"} if asked.get("token") else {}
        http = httpx2.AsyncClient(headers=headers, timeout=60)
        server = streamable_http_client(asked["url"], http_client=http)
    async with Client(server, mode=sys.argv[1]) as client:
        tools = (await client.list_tools()).tools
        answers = []
        for tool, arguments in asked["calls"]:
            answer = await client.call_tool(tool, arguments, read_timeout_seconds=60)
            answers.append(
                {
                    "texts": [block.text for block in answer.content],
                    "data": answer.structured_content,
                    "is_error": bool(answer.is_error),
                }
            )
        json.dump({"tools": [tool.model_dump(mode="json") for tool in tools], "answers": answers}, sys.stdout)


asyncio.run(main())
