// node --experimental-websocket --test clients/js/sandbox-terminal.test.mjs
// With SANDBOX_GATEWAY_URL, SANDBOX_GATEWAY_TOKEN and SANDBOX_ID also against a real gateway.
import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import test from "node:test";

import { SandboxTerminal } from "./sandbox-terminal.js";

/** What the add-on uses of an xterm.js Terminal. `hold()` stops drawing. */
class Screen {
  cols = 80;
  rows = 24;
  text = "";
  bytes = 0;
  #listeners = { data: [], binary: [], resize: [] };
  #held = null;

  #on(name, listener) {
    this.#listeners[name].push(listener);
    return { dispose: () => this.#listeners[name].splice(0) };
  }
  onData(listener) {
    return this.#on("data", listener);
  }
  onBinary(listener) {
    return this.#on("binary", listener);
  }
  onResize(listener) {
    return this.#on("resize", listener);
  }
  write(bytes, done) {
    this.bytes += bytes.length;
    if (this.bytes < 1_000_000) {
      this.text += new TextDecoder().decode(bytes);
    }
    this.#held ? this.#held.push(done) : queueMicrotask(done);
  }
  hold() {
    this.#held = [];
  }
  draw() {
    const held = this.#held;
    this.#held = null;
    held.forEach((done) => done());
  }
  type(text) {
    this.#listeners.data.forEach((listener) => listener(text));
  }
  resize(cols, rows) {
    Object.assign(this, { cols, rows });
    this.#listeners.resize.forEach((listener) => listener({ cols, rows }));
  }
  async sees(pattern) {
    for (let i = 0; i < 600; ++i) {
      if (pattern.test(this.text)) {
        return;
      }
      await sleep(50);
    }
    assert.fail(`no ${pattern} in ${JSON.stringify(this.text.slice(-500))}`);
  }
}

class FakeSocket {
  static made = [];
  readyState = 0;
  sent = [];
  constructor(url, protocols) {
    Object.assign(this, { url, protocols });
    FakeSocket.made.push(this);
  }
  open() {
    this.readyState = 1;
    this.onopen();
  }
  send(data) {
    this.sent.push(data);
  }
  output(bytes) {
    const frame = new Uint8Array(bytes + 1).fill(120);
    frame[0] = 1;
    this.onmessage({ data: frame.buffer });
  }
  close(code) {
    this.readyState = 3;
    this.onclose({ code: code ?? 1006, reason: "" });
  }
}

function fakeLink(options = {}) {
  FakeSocket.made = [];
  const screen = new Screen();
  const link = new SandboxTerminal({
    url: "http://gateway.test/", sandbox: "sbx-1", token: "secret", WebSocket: FakeSocket, ...options,
  });
  link.activate(screen);
  return { link, screen };
}

async function connection(number) {
  for (let i = 0; i < 100 && FakeSocket.made.length < number; ++i) {
    await sleep(50);
  }
  assert.ok(FakeSocket.made.length >= number, `no connection ${number}`);
  return FakeSocket.made[number - 1];
}

test("the first connection has size and token, and the token is not in the address", async () => {
  const { link } = fakeLink();
  const socket = await connection(1);
  assert.equal(socket.url,
               "ws://gateway.test/sandboxes/sbx-1/terminal?session=terminal&cols=80&rows=24");
  assert.deepEqual(socket.protocols, ["sandbox.v1", "bearer.secret"]);
  link.dispose();
});

test("a ticket is asked for each connection", async () => {
  let asked = 0;
  const { link } = fakeLink({ token: undefined, ticket: async () => `t${++asked}` });
  const socket = await connection(1);
  assert.match(socket.url, /ticket=t1$/);
  assert.deepEqual(socket.protocols, ["sandbox.v1"]);
  socket.open();
  socket.close();
  assert.match((await connection(2)).url, /ticket=t2$/);
  link.dispose();
});

test("after a break it goes on at the byte where it stopped, with the keys pressed meanwhile",
  async () => {
    const { link, screen } = fakeLink();
    const first = await connection(1);
    first.open();
    first.onmessage({ data: '{"type":"offset","offset":100}' });
    first.output(7);
    assert.equal(link.offset, 107);
    first.close();
    screen.type("ls\r");
    const second = await connection(2);
    assert.match(second.url, /&offset=107$/);
    second.open();
    assert.deepEqual([...second.sent[0]], [0, ...new TextEncoder().encode("ls\r")]);
    screen.resize(100, 30);
    assert.equal(second.sent[1], '{"type":"resize","cols":100,"rows":30}');
    link.dispose();
  });

test("a terminal that is behind is waited for without a connection", async () => {
  const { link, screen } = fakeLink();
  const first = await connection(1);
  first.open();
  screen.hold();
  for (let i = 0; i < 5; ++i) {
    first.output(1_000_000);
  }
  assert.equal(first.readyState, 3);
  assert.equal(FakeSocket.made.length, 1);
  screen.draw();
  assert.match((await connection(2)).url, /&offset=5000000$/);
  link.dispose();
});

test("it gives up where no connection ever opens", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { link } = fakeLink();
  let given = 0;
  link.addEventListener("error", () => ++given);
  for (let i = 0; i < 20; ++i) {
    FakeSocket.made.at(-1).close();
    t.mock.timers.tick(10_000);
  }
  assert.equal(given, 1);
  assert.equal(FakeSocket.made.length, 8);
});

test("it gives up at once where its messages are refused", async () => {
  const { link } = fakeLink();
  const told = once(link, "error");
  const socket = await connection(1);
  socket.open();
  socket.close(1008);
  await told;
  await sleep(400);
  assert.equal(FakeSocket.made.length, 1);
});

test("the exit ends it", async () => {
  const { link } = fakeLink();
  const socket = await connection(1);
  socket.open();
  const ended = once(link, "exit");
  socket.onmessage({ data: '{"type":"exit","exit_code":3,"signal":null}' });
  assert.deepEqual((await ended)[0].detail, { exit_code: 3, signal: null });
  await sleep(400);
  assert.equal(FakeSocket.made.length, 1);
});

const real = process.env.SANDBOX_ID
  ? { url: process.env.SANDBOX_GATEWAY_URL, token: process.env.SANDBOX_GATEWAY_TOKEN,
      sandbox: process.env.SANDBOX_ID }
  : null;

test("a real terminal: size, keys, a break, the exit", { skip: !real }, async () => {
  const broken = [];
  class Breakable extends WebSocket {
    constructor(...rest) {
      super(...rest);
      broken.push(this);
    }
  }
  const screen = new Screen();
  screen.resize(91, 33);
  const link = new SandboxTerminal({ ...real, session: "js", WebSocket: Breakable });
  const opened = once(link, "open");
  link.activate(screen);
  await opened;
  screen.type("stty size; echo on''e\r");
  await screen.sees(/33 91\r\none\r\n/);
  screen.resize(70, 20);
  screen.type("stty size; echo tw''o\r");
  await screen.sees(/20 70\r\ntwo\r\n/);
  const again = once(link, "open");
  broken[0].close();
  await again;
  assert.equal(broken.length, 2);
  screen.type("echo thr''ee\r");
  await screen.sees(/three\r\n/);
  assert.equal(screen.text.match(/two\r\n/g).length, 1, "what was shown is not shown again");
  const ended = once(link, "exit");
  screen.type("exit 5\r");
  assert.equal((await ended)[0].detail.exit_code, 5);
});

test("a flood that is not drawn comes whole in the end", { skip: !real }, async () => {
  const bytes = 8_000_000;
  const made = await fetch(`${real.url}/sandboxes/${real.sandbox}/sessions`, {
    method: "POST",
    headers: { authorization: `Bearer ${real.token}` },
    body: JSON.stringify({ command: `head -c ${bytes} /dev/zero; sleep 1`,
                           log_limit_bytes: 2 * bytes }),
  });
  const { id } = await made.json();
  const screen = new Screen();
  screen.hold();
  const link = new SandboxTerminal({ ...real, attach: id });
  link.activate(screen);
  const ended = once(link, "exit");
  for (let i = 0; i < 600 && screen.bytes < 4_000_000; ++i) {
    await sleep(50);
  }
  assert.ok(screen.bytes < bytes, "it was disconnected before all had come");
  screen.draw();
  await ended;
  assert.equal(screen.bytes, bytes);
});
