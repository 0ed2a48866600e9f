/**
 * SandboxTerminal: an xterm.js add-on that shows a terminal of a sandbox (docs/terminal.md).
 *
 *     const link = new SandboxTerminal({ url: "https://gateway.example", sandbox: "sbx-…", token });
 *     terminal.loadAddon(link);
 *     link.addEventListener("exit", (event) => console.log(event.detail.exit_code));
 *
 * It speaks the framing of `GET /sandboxes/{id}/terminal`, or of `…/sessions/{sid}/attach` with the
 * option `attach`; tells the terminal's size; after a broken connection it goes on at the byte
 * where it stopped. No dependencies; runs in browsers and wherever there is a `WebSocket`.
 *
 * Events: `open`, `disconnect` (detail: {code, retryInMs}), `exit` (detail: {exit_code, signal}),
 * `error` (detail: {message}; it has given up). Each is a CustomEvent.
 */

const INPUT = 0;
const STDOUT = 1;
const STDERR = 2;
const SUBPROTOCOL = "sandbox.v1";

/** Larger pastes go in several messages; the other side takes at most 1 MiB in one. */
const INPUT_PIECE_BYTES = 64 * 1024;
/** Keys pressed while there is no connection; what is more is dropped. */
const INPUT_WAITING_BYTES_MAX = 4096;
/**
 * A browser's WebSocket cannot be slowed down, and a terminal that is behind keeps what it has not
 * drawn. Past this it is disconnected until it has caught up, and goes on where it stopped: the
 * session's log holds the rest.
 */
const BEHIND_BYTES_MAX = 4 * 1024 * 1024;
const BEHIND_BYTES_RESUME = 256 * 1024;
const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 10_000;
/** Connections in a row that never opened: then the address or the token is wrong. */
const RETRIES_MAX = 8;
/** RFC 6455: the other side refuses what we say; saying it again would not help. */
const CLOSE_FINAL = new Set([1002, 1003, 1007, 1008, 1009]);

export class SandboxTerminal extends EventTarget {
  #options;
  #terminal = null;
  #subscriptions = [];
  #socket = null;
  #retryTimer = null;
  #failures = 0;
  #offset = null; // of the log: the next byte to come
  #behind = 0; // bytes given to the terminal and not drawn yet
  #paused = false;
  #waiting = []; // input for the next connection
  #waitingBytes = 0;
  #ended = false;

  /**
   * @param {object} options
   * @param {string} options.url      of the gateway: "https://host[:port]"
   * @param {string} options.sandbox  its id
   * @param {string} [options.token]  a bearer token; or
   * @param {() => (string | Promise<string>)} [options.ticket]  gives a fresh ticket of
   *     `POST /ws-tickets` for each connection
   * @param {string} [options.session]  name of the shell, by default "terminal"
   * @param {string} [options.attach]   id or name of a session to attach to instead
   * @param {boolean} [options.resize]  tell the terminal's size; by default only without `attach`,
   *     since a session that has no terminal of its own refuses it
   * @param {typeof WebSocket} [options.WebSocket]
   */
  constructor(options) {
    super();
    if (!options?.url || !options.sandbox) {
      throw new TypeError("url and sandbox are required");
    }
    if (!options.token && !options.ticket) {
      throw new TypeError("a token or a ticket function is required");
    }
    this.#options = {
      WebSocket: globalThis.WebSocket,
      resize: !options.attach,
      ...options,
    };
    if (!this.#options.WebSocket) {
      throw new TypeError("there is no WebSocket here");
    }
  }

  /** Called by `terminal.loadAddon`. */
  activate(terminal) {
    this.#terminal = terminal;
    const encoder = new TextEncoder();
    this.#subscriptions = [
      terminal.onData((text) => this.#input(encoder.encode(text))),
      terminal.onBinary((text) => this.#input(Uint8Array.from(text, (c) => c.charCodeAt(0)))),
      terminal.onResize(() => this.#resize()),
    ];
    this.#connect();
  }

  /** Leaves; the session goes on. */
  dispose() {
    this.#end();
    for (const subscription of this.#subscriptions) {
      subscription.dispose();
    }
    this.#subscriptions = [];
  }

  /** Where the next byte of the log stands; null before the first connection. */
  get offset() {
    return this.#offset;
  }

  /** The end of input, for a session without a terminal of its own. */
  sendEof() {
    this.#order({ type: "eof" });
  }

  /** @param {string} signal "INT", "TERM", … */
  sendSignal(signal) {
    this.#order({ type: "signal", signal });
  }

  #emit(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #end() {
    this.#ended = true;
    clearTimeout(this.#retryTimer);
    this.#socket?.close(1000);
    this.#socket = null;
  }

  #fail(message) {
    this.#end();
    this.#emit("error", { message });
  }

  #address(ticket) {
    const { url, sandbox, attach, session } = this.#options;
    const base = url.replace(/^http/, "ws").replace(/\/+$/, "");
    const query = new URLSearchParams();
    let path = "terminal";
    if (attach) {
      path = `sessions/${encodeURIComponent(attach)}/attach`;
    } else {
      query.set("session", session ?? "terminal");
      query.set("cols", String(this.#terminal.cols));
      query.set("rows", String(this.#terminal.rows));
    }
    if (this.#offset !== null) {
      query.set("offset", String(this.#offset));
    }
    if (ticket) {
      query.set("ticket", ticket);
    }
    const text = query.toString();
    return `${base}/sandboxes/${encodeURIComponent(sandbox)}/${path}${text ? `?${text}` : ""}`;
  }

  async #connect() {
    const { token, ticket, WebSocket } = this.#options;
    let fresh = "";
    try {
      fresh = ticket ? await ticket() : "";
    } catch (error) {
      this.#retry(0, error.message);
      return;
    }
    if (this.#ended) {
      return;
    }
    const protocols = fresh ? [SUBPROTOCOL] : [SUBPROTOCOL, `bearer.${token}`];
    const socket = new WebSocket(this.#address(fresh), protocols);
    socket.binaryType = "arraybuffer";
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.#failures = 0;
      this.#opened();
    };
    socket.onmessage = (event) => {
      if (this.#socket === socket) {
        this.#message(event.data);
      }
    };
    socket.onclose = (event) => {
      if (this.#socket === socket && !this.#ended) {
        this.#closed(event, opened);
      }
    };
    this.#socket = socket;
  }

  #opened() {
    if (this.#options.attach) {
      this.#resize(); // the terminal's address has its size
    }
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const bytes of waiting) {
      this.#input(bytes);
    }
    this.#emit("open");
  }

  #closed(event, opened) {
    this.#socket = null;
    if (CLOSE_FINAL.has(event.code)) {
      this.#fail(`the connection was closed: ${event.reason || event.code}`);
      return;
    }
    this.#failures = opened ? 0 : this.#failures + 1;
    this.#retry(event.code, event.reason);
  }

  #retry(code, reason) {
    if (this.#ended) {
      return;
    }
    if (this.#failures >= RETRIES_MAX) {
      this.#fail(`no connection: ${reason || code || "refused"}`);
      return;
    }
    const wait = Math.min(RETRY_FIRST_MS * 2 ** this.#failures, RETRY_MAX_MS);
    // Half of it at random, so that a gateway that came back is not met by all at once.
    const retryInMs = Math.round(wait / 2 + (Math.random() * wait) / 2);
    this.#retryTimer = setTimeout(() => this.#connect(), retryInMs);
    this.#emit("disconnect", { code, retryInMs });
  }

  #message(data) {
    if (typeof data === "string") {
      this.#told(data);
      return;
    }
    const bytes = new Uint8Array(data);
    if (bytes.length === 0 || (bytes[0] !== STDOUT && bytes[0] !== STDERR)) {
      return;
    }
    const output = bytes.subarray(1);
    this.#offset = (this.#offset ?? 0) + output.length;
    this.#behind += output.length;
    this.#terminal.write(output, () => this.#drawn(output.length));
    if (this.#behind > BEHIND_BYTES_MAX && !this.#paused) {
      this.#paused = true;
      const socket = this.#socket;
      this.#socket = null;
      socket.close(1000);
    }
  }

  #drawn(bytes) {
    this.#behind -= bytes;
    if (this.#paused && this.#behind <= BEHIND_BYTES_RESUME && !this.#ended) {
      this.#paused = false;
      this.#connect();
    }
  }

  #told(text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    if (message.type === "offset" && Number.isSafeInteger(message.offset)) {
      this.#offset = message.offset;
    } else if (message.type === "exit") {
      this.#end();
      this.#emit("exit", { exit_code: message.exit_code, signal: message.signal ?? null });
    }
  }

  #isOpen() {
    return this.#socket !== null && this.#socket.readyState === 1;
  }

  #resize() {
    if (this.#options.resize) {
      const { cols, rows } = this.#terminal;
      this.#order({ type: "resize", cols, rows });
    }
  }

  #order(message) {
    if (this.#isOpen()) {
      this.#socket.send(JSON.stringify(message));
    }
  }

  #input(bytes) {
    if (this.#ended) {
      return;
    }
    if (!this.#isOpen()) {
      if (this.#waitingBytes + bytes.length <= INPUT_WAITING_BYTES_MAX) {
        this.#waiting.push(bytes);
        this.#waitingBytes += bytes.length;
      }
      return;
    }
    for (let at = 0; at < bytes.length; at += INPUT_PIECE_BYTES) {
      const piece = bytes.subarray(at, at + INPUT_PIECE_BYTES);
      const frame = new Uint8Array(piece.length + 1);
      frame[0] = INPUT;
      frame.set(piece, 1);
      this.#socket.send(frame);
    }
  }
}
