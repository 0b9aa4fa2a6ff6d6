"""An agent without a token, by the official Python SDK: as sign_in.mjs. Prints one JSON report; judges
nothing."""

import asyncio
import json
import os
import re
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

MCP_URL, WORKSPACE = os.environ["MCP_URL"], os.environ["WORKSPACE"]
# Nobody listens there: whoever plays the browser reads the code off the redirect.
REDIRECT_URL = "http://127.0.0.1:4711/callback"


class Agent:
    """A place for the application's secrets, and the person who signs in."""

    def __init__(self, way: str) -> None:
        self.way, self.allows = way, ["nogoo9:read"]
        self.asked: list[dict[str, str]] = []
        self.granted: list[str | None] = []
        self.tokens = None
        self.client = None
        if way == "beforehand":
            self.client = OAuthClientInformationFull(
                client_id=os.environ["CLIENT_ID"], token_endpoint_auth_method="none", redirect_uris=[REDIRECT_URL]
            )

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens) -> None:
        self.tokens = tokens
        self.granted.append(tokens.scope)

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client) -> None:
        self.client = client

    async def sign_in(self, url: str) -> None:
        """The person's browser, before the page of the development identity provider."""
        self.asked.append({name: value for name, [value] in parse_qs(urlsplit(url).query).items()})
        async with httpx2.AsyncClient(trust_env=False) as browser:
            page = await browser.get(url)
            page.raise_for_status()
            form = {"request": re.search(r'name="request" value="([^"]+)"', page.text)[1], "user": "alice"}
            for box in re.findall(r'name="(allow:[^"]+)"', page.text):
                if box.removeprefix("allow:") in self.allows:
                    form[box] = "yes"
            sent = await browser.post(
                urljoin(url, "/sign-in"),
                content=urlencode(form),
                headers={"content-type": "application/x-www-form-urlencoded"},
            )
        location = sent.headers.get("location", "")
        if sent.status_code != 303 or not location.startswith(REDIRECT_URL + "?"):
            raise RuntimeError(f"signing in ended at {sent.status_code} {location}")
        self.back = {name: value for name, [value] in parse_qs(urlsplit(location).query).items()}

    async def came_back(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            code=self.back["code"], state=self.back.get("state"), iss=self.back.get("iss")
        )

    def provider(self) -> OAuthClientProvider:
        metadata = OAuthClientMetadata(
            client_name="Agent of the Python SDK",
            redirect_uris=[REDIRECT_URL],
            token_endpoint_auth_method="none",
        )
        document = os.environ["DOCUMENT"] if self.way == "document" else None
        return OAuthClientProvider(MCP_URL, metadata, self, self.sign_in, self.came_back, document)


async def run(way: str) -> dict:
    agent = Agent(way)
    async with httpx2.AsyncClient(auth=agent.provider(), trust_env=False, timeout=60) as http:
        async with Client(streamable_http_client(MCP_URL, http_client=http)) as client:
            read = await client.call_tool("get_workspace", {"id": WORKSPACE})
            # Its token may only look; whoever is asked again lets it do more.
            agent.allows = ["nogoo9:read", "nogoo9:write", "nogoo9:admin"]
            stopped = await client.call_tool("stop_workspace", {"id": WORKSPACE})
    show = lambda result: result.model_dump(by_alias=True, mode="json")
    return {
        "client": agent.client.client_id,
        "asked": agent.asked,
        "granted": agent.granted,
        "read": show(read),
        "stopped": show(stopped),
    }


async def main() -> None:
    print(json.dumps({way: await run(way) for way in os.environ["WAYS"].split(",")}))


asyncio.run(main())
