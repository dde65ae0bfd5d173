"""What strangers may not do: send bombs, see others' images, fill the memory, come in under another name."""

from __future__ import annotations

import io
import socket
import struct
import threading
import time
import zlib
from dataclasses import replace

import numpy as np
import pytest
import uvicorn
from PIL import Image

from simsc.web.app import HEADERS
from simsc.web.connections import PatientProtocol
from simsc.web.engine import Engine
from simsc.web.samples import offered_samples
from simsc.web.schemas import Busy, ImageGone
from simsc.web.settings import Settings
from simsc.web.store import AT_ONCE, FORMATS, ImageStore
from simsc.web.turns import CLICK, DENSE, ENCODE, Turns

SAMPLE = next(iter(offered_samples()))


def upload(client, content: bytes, name: str = "a.png", kind: str = "image/png"):
    return client.post("/api/images", files={"file": (name, content, kind)})


@pytest.mark.parametrize("form", FORMATS)
def test_every_allowed_type_is_known_by_its_content(client, image_file, form: str) -> None:
    answer = upload(client, image_file(0, (30, 40), form), name="wrong.txt", kind="text/plain")
    assert answer.status_code == 201
    assert (answer.json()["width"], answer.json()["height"]) == (40, 30)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.4\n", b"\x89PNG\r\n\x1a\nrest", b"GIF89a"],
)
def test_other_files_are_refused_whatever_they_claim(client, content: bytes) -> None:
    answer = upload(client, content)
    assert answer.status_code == 415
    assert answer.json()["code"] == "not-an-image"


def test_types_beyond_the_list_are_refused(client) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "PPM")
    assert upload(client, stream.getvalue()).status_code == 415


def test_a_truncated_image_is_refused(client, image_file) -> None:
    content = image_file(0, (200, 200), "JPEG")
    answer = upload(client, content[: len(content) // 2])
    assert answer.status_code == 415


def test_a_decompression_bomb_is_refused_before_it_is_decoded(client) -> None:
    """A PNG header that promises 50,000 x 50,000 pixels."""
    head = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    answer = upload(client, b"\x89PNG\r\n\x1a\n" + body)
    assert answer.status_code == 413
    assert answer.json()["code"] == "too-large"


def test_too_many_pixels(client, image_file) -> None:
    answer = upload(client, image_file(0, (600, 1000)))
    assert answer.status_code == 413
    assert "1000x600" in answer.json()["detail"]


def test_too_many_bytes_by_declaration(client) -> None:
    assert upload(client, b"\0" * (2**20 + 2**17)).status_code == 413
    assert upload(client, b"\0" * (2**20 + 100)).status_code == 413  # fits the form's limit, not the file's


def test_too_many_bytes_while_streaming(client) -> None:
    """A body of unknown length is cut off when it has grown too long."""
    sent = []

    def body():
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
        yield head
        for _ in range(64):
            sent.append(1)
            yield b"\0" * 2**16

    answer = client.post("/api/images", content=body(), headers={"content-type": "multipart/form-data; boundary=x"})
    assert answer.status_code == 413
    assert "MB" in answer.json()["detail"]


def test_large_questions_are_refused(client) -> None:
    answer = client.post("/api/match", content=b" " * (2**20 + 1), headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_turned_photographs_are_shown_upright(client) -> None:
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 30)).save(stream, "JPEG", exif=exif)
    answer = upload(client, stream.getvalue()).json()
    assert (answer["width"], answer["height"]) == (30, 40)
    shown = client.get(f"/api/images/{answer['id']}")
    assert Image.open(io.BytesIO(shown.content)).size == (30, 40)


def test_names_cannot_carry_markup_or_folders(client, image_file) -> None:
    answer = upload(client, image_file(), name="../../<img src=x>.png")
    assert answer.json()["name"] == "_img src_x_.png"


def test_users_do_not_see_each_other(make_client, settings, send) -> None:
    """Tokens are long and random, there is no list, and a token of one server means nothing to another."""
    mine, other = make_client(settings), make_client(settings)
    tokens = {send(0, to=mine) for _ in range(5)}
    assert len(tokens) == 5
    assert min(len(token) for token in tokens) >= 24
    assert mine.get("/api/images").status_code == 405
    for token in tokens:
        assert other.get(f"/api/images/{token}").json()["code"] == "image-gone"
        assert mine.get(f"/api/images/{token}").headers["cache-control"] == "no-store"
    mixed = {"source": send(0, to=other), "target": next(iter(tokens)), "points": [[1, 1]]}
    assert other.post("/api/match", json=mixed).status_code == 404


def test_the_least_recently_used_image_goes_first(client, send) -> None:
    first, second, *_ = [send(index) for index in range(6)]
    assert client.get(f"/api/images/{first}").status_code == 200
    send(6)
    assert client.get(f"/api/images/{first}").status_code == 200
    gone = client.get(f"/api/images/{second}")
    assert gone.status_code == 404
    assert "upload it again" in gone.json()["detail"]


def test_forgotten_images_are_gone(client, send) -> None:
    image = send(0)
    assert client.delete(f"/api/images/{image}").status_code == 204
    assert client.get(f"/api/images/{image}").status_code == 404
    assert client.delete(f"/api/images/{image}").status_code == 404


def test_memory_is_bounded_by_bytes_with_features_counted(make_client, settings) -> None:
    pixels, features = 60 * 80 * 3, 64 * 8 * 8 * 4
    client = make_client(replace(settings, memory=4 * pixels + 100))
    store = client.app.state.service.store
    images = [store.put(np.zeros((60, 80, 3), np.uint8), str(index)).id for index in range(4)]
    assert client.get("/api/health").json()["images"] == 4
    assert features > pixels
    client.post(f"/api/images/{images[3]}/encode")
    assert client.get("/api/health").json()["images"] == 2


def test_the_store_keeps_the_pair_in_use_however_small_it_is() -> None:
    store = ImageStore(max_images=1, max_bytes=1)
    first, second, third = (store.put(np.zeros((9, 9, 3), np.uint8), str(index)) for index in range(3))
    assert store.get(second.id).name == "1"
    assert store.get(third.id).name == "2"
    with pytest.raises(ImageGone, match="upload it again"):
        store.get(first.id)


def test_only_so_many_models_stay_loaded(settings, small_matcher) -> None:
    loaded = []
    store = ImageStore(4, 2**30)
    engine = Engine(replace(settings, loaded_models=1), store, lambda name: loaded.append(name) or small_matcher(name))
    image = store.put(np.zeros((40, 40, 3), np.uint8), "one")
    for label in ("first", "first", "second", "first"):
        engine.encode(image, label)
    assert loaded == ["resnet50.v1_in1k", "resnet50.tv_in1k"]  # the third time its features are already there
    engine.encode(store.put(np.zeros((40, 40, 3), np.uint8), "two"), "first")
    assert loaded[-1] == "resnet50.v1_in1k"


def test_who_waits_too_long_is_told_so(settings, small_matcher) -> None:
    store = ImageStore(4, 2**30)
    engine = Engine(replace(settings, patience=0.01), store, small_matcher)
    with engine.turns.turn(), pytest.raises(Busy, match="busy"):
        engine.encode(store.put(np.zeros((40, 40, 3), np.uint8), "one"), "first")


def test_short_questions_come_before_long_ones_and_too_many_are_refused() -> None:
    turns, order, started = Turns(patience=30, most_waiting=3), [], []

    def ask(name: str, handicap: float) -> None:
        with turns.turn(handicap):
            order.append(name)

    with turns.turn():
        for name, handicap in (("dense", DENSE), ("encode", ENCODE), ("click", CLICK)):
            started.append(threading.Thread(target=ask, args=(name, handicap)))
            started[-1].start()
            while len(turns._waiting) < len(started):
                time.sleep(0.001)
        with pytest.raises(Busy, match="busy"):
            ask("one too many", CLICK)
    for thread in started:
        thread.join()
    assert order == ["click", "encode", "dense"]


def test_long_questions_are_not_overtaken_for_ever(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("simsc.web.turns.time.monotonic", lambda: now[0])
    turns, order = Turns(patience=30, most_waiting=3), []

    def ask(name: str, handicap: float) -> None:
        with turns.turn(handicap):
            order.append(name)

    with turns.turn():
        first = threading.Thread(target=ask, args=("encode", ENCODE))
        first.start()
        while not turns._waiting:
            time.sleep(0.001)
        now[0] += 2 * ENCODE
        second = threading.Thread(target=ask, args=("click", CLICK))
        second.start()
        while len(turns._waiting) < 2:
            time.sleep(0.001)
    first.join()
    second.join()
    assert order == ["encode", "click"]


def test_decoding_counts_against_the_memory() -> None:
    store = ImageStore(max_images=8, max_bytes=1000)
    with store.reserved(900), pytest.raises(Busy, match="decoding other images"), store.reserved(200):
        pass
    with store.reserved(2000):  # alone, a large one is decoded
        pass
    for number in range(4):
        store.put(np.zeros((10, 10, 3), np.uint8), str(number))
    with store.reserved(500):
        assert len(store) == 2


def test_a_full_server_says_so(make_client, settings, image_file) -> None:
    client = make_client(replace(settings, patience=0.01))
    decoder = client.app.state.service.decoder
    for _ in range(AT_ONCE):
        decoder._places.acquire()
    answer = upload(client, image_file())
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "busy", "1")


@pytest.mark.parametrize(
    "host", ["localhost:80@evil.example", "localhost:evil", "localhost/", "[::1", "localhost:123456", "local\u017fost"]
)
def test_hosts_are_parsed_strictly(host: str) -> None:
    assert not Settings().allows_host(host)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 201),
        ({"referer": "https://evil.example/page"}, 403),
        ({"referer": "http://localhost/"}, 201),
        ({}, 201),
    ],
)
def test_posts_of_other_sites_are_refused_without_an_origin_too(client, headers: dict[str, str], status: int) -> None:
    assert client.post(f"/api/samples/{SAMPLE}/0", headers=headers).status_code == status


def test_half_a_character_in_a_question_is_answered(client, send) -> None:
    image = send()
    body = f'{{"source": "{image}", "target": "{image}", "points": [[1, 1]], "model": "\\ud800"}}'
    answer = client.post("/api/match", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 404


@pytest.mark.parametrize("body", ["[" * 100_000, '{"points": [[' + "9" * 5000 + ", 1]]}", '{"points": [[NaN, 1]]}'])
def test_json_that_nobody_should_believe_is_refused(client, body: str) -> None:
    answer = client.post("/api/match", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"]


def test_memory_that_is_used_up_is_not_a_mistake(make_client, settings) -> None:
    def opener(name: str) -> object:
        raise MemoryError

    client = make_client(settings, opener=opener, raise_server_exceptions=False)
    image = client.post(f"/api/samples/{SAMPLE}/0").json()["id"]
    assert client.post(f"/api/images/{image}/encode").status_code == 503


@pytest.mark.slow
def test_connections_that_ask_nothing_are_closed(make_client, settings, monkeypatch) -> None:
    """Silent ones, and those that stop in the middle of a head or a body; on this machine's loopback only."""
    monkeypatch.setattr("simsc.web.connections.HEAD_SECONDS", 0.3)
    app = make_client(replace(settings, body_seconds=0.3)).app
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", http=PatientProtocol))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    head = f"POST /api/match HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode()
    try:
        for start, answer in ((b"", b""), (head, b""), (head + b"Content-Length: 9\r\n\r\n{", b"408")):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(start)
                received = b""
                while part := connection.recv(4096):
                    received += part
            assert answer in received
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:8000", 200), ("evil.example", 421), ("", 421)],
)
def test_other_host_names_are_refused(client, host: str, status: int) -> None:
    assert client.get("/api/health", headers={"host": host}).status_code == status


def test_a_server_on_all_interfaces_answers_to_addresses_and_given_names_only() -> None:
    settings = Settings(hosts=frozenset({"localhost", "box.example"}), any_address=True)
    hosts = ("192.168.0.7:8000", "[fe80::1]:8000", "box.example", "evil.example")
    assert [settings.allows_host(host) for host in hosts] == [True, True, True, False]


def test_requests_of_foreign_pages_are_refused(client) -> None:
    assert client.post(f"/api/samples/{SAMPLE}/0", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/api/health", headers={"origin": "null"}).status_code == 403
    own = client.get("/api/health", headers={"origin": "http://localhost"})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers


@pytest.mark.parametrize("path", ["/", "/docs", "/api/health", "/static/app.js", "/openapi.json", "/nothing"])
def test_every_answer_carries_the_protective_headers(client, path: str) -> None:
    answer = client.get(path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_page_and_its_files_name_no_other_server(client) -> None:
    from simsc.web.app import STATIC

    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, file.name
        assert "https://" not in text, file.name
        assert client.get(f"/static/{file.name}").status_code == 200
    assert client.get("/static/../app.py").status_code == 404


def test_openapi_describes_every_route_and_problem(client) -> None:
    description = client.get("/openapi.json").json()
    assert {"/api/match", "/api/match-images", "/api/images", "/api/warp", "/api/models", "/api/health"} <= set(
        description["paths"]
    )
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
    match = description["paths"]["/api/match"]["post"]
    assert {"200", "400", "404", "422"} <= set(match["responses"])
    fields = description["components"]["schemas"]["MatchRequest"]["properties"]
    assert "0-based" in fields["points"]["description"]
