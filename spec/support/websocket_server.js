// The servers that the specs of WebSockets ask: usage: node websocket_server.js FOLDER
//
// `ws` speaks by node-ws, `raw` byte by byte and wrongly, `idle` is a way to `raw` that cuts connections on which
// nothing moves. `ready` appears in FOLDER with one line "name port" for each. Ends when its standard input does.
//
// `ws` takes orders by GET, and answers how often something has moved through `idle`: /cut_idle cuts what has not moved
// since the last of these, /finish ends what is busy, anything else does nothing.
//
// An exec of `ws` behaves as an API server's; its query says what the command does.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const net = require('net');
const path = require('path');

// Debian's module, where a Node that is not Debian's would not look.
const { WebSocketServer } = require('/usr/share/nodejs/ws');

const folder = process.argv[2];

const SUCCESS = JSON.stringify({ metadata: {}, status: 'Success' });

function failure(code) {
  return JSON.stringify({
    metadata: {}, status: 'Failure', message: 'command terminated with non-zero exit code', reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(code) }] },
  });
}

const on = (channel, bytes) => Buffer.concat([Buffer.from([channel]), Buffer.from(bytes)]);

// What commands do, by the first element of the path behind /exec.
const commands = {
  // Sends stdin back. v4 tells no end of it: there the query has its length.
  cat(socket, query) {
    let left = query.has('length') ? Number(query.get('length')) : Infinity;
    const end = () => {
      socket.send(on(3, SUCCESS));
      socket.close(1000);
    };
    socket.send(on(1, ''));
    socket.on('message', (message) => {
      if (message[0] === 255 && message[1] === 0) {
        end();
      } else if (message[0] === 0) {
        left -= message.length - 1;
        socket.send(on(1, message.subarray(1)));
        if (left <= 0) {
          end();
        }
      }
    });
    if (left === 0) {
      end();
    }
  },
  exit(socket, query) {
    socket.send(on(1, ''));
    socket.send(on(1, 'out'));
    socket.send(on(2, 'err'));
    socket.send(on(3, query.get('code') === '0' ? SUCCESS : failure(query.get('code'))));
    socket.close(1000);
  },
  // As a missing program is told of since 1.30.
  internal(socket) {
    socket.send(on(3, JSON.stringify({
      status: 'Failure', reason: 'InternalError', message: 'error executing command: no such file', code: 500,
    })));
    socket.close(1000);
  },
  // Closes properly, but says nothing of the command.
  unknown(socket) {
    socket.send(on(1, 'out'));
    socket.close(1000);
  },
  // The status in fragments with pings between them, one byte of TCP at a time.
  fragments(socket, query) {
    const bytes = on(3, failure(query.get('code')));
    for (let at = 0; at < bytes.length; at += 10) {
      socket.send(bytes.subarray(at, at + 10), { fin: at + 10 >= bytes.length });
      socket.ping('between');
    }
    socket.close(1000);
  },
  messages(socket, query) {
    const text = failure(query.get('code'));
    socket.send(on(3, text.slice(0, 20)));
    socket.send(on(3, text.slice(20)));
    socket.close(1000);
  },
  // Goes away in mid-exec.
  vanish(socket) {
    socket.send(on(1, 'out'), () => socket.terminate());
  },
  empty(socket) {
    socket.send(Buffer.alloc(0));
  },
};

// Plain WebSockets.
const plain = {
  echo(socket) {
    socket.on('message', (message) => socket.send(message));
  },
  // Says what the pongs and pings held that came.
  pings(socket, query) {
    for (let i = 0; i < Number(query.get('count')); i += 1) {
      socket.ping('ping ' + i);
    }
    socket.on('ping', (bytes) => socket.send(Buffer.from('ping:' + bytes)));
    socket.on('pong', (bytes) => socket.send(Buffer.from('pong:' + bytes)));
  },
  close(socket, query) {
    socket.close(query.has('code') ? Number(query.get('code')) : undefined, query.get('reason') || undefined);
  },
  // Reads the close, and says which it was when the next one asks.
  closed(socket) {
    socket.on('close', (code, reason) => { lastClose = code + ' ' + reason; });
  },
  last(socket) {
    const timer = setInterval(() => { // that one's end may come later
      if (lastClose !== '') {
        clearInterval(timer);
        socket.send(Buffer.from(lastClose));
      }
    }, 1);
    socket.on('close', () => clearInterval(timer));
  },
  text(socket) {
    socket.send('text', { binary: false });
  },
  long(socket, query) {
    socket.send(Buffer.alloc(Number(query.get('length')), 'x'));
  },
};

let lastClose = '';

// Which protocol it speaks: the first that is offered and that the query has, if it has any.
function choose(offered, request) {
  const known = new URL(request.url, 'http://host').searchParams.getAll('speaks');
  return [...offered].find((name) => known.length === 0 || known.includes(name)) || false;
}

const links = new Set(); // through `idle`
const busy = new Set(); // connections
let moved = 0;

const orders = {
  '/cut_idle'() {
    for (const link of links) {
      if (link.moved === link.seen) {
        link.cut();
      }
      link.seen = link.moved;
    }
  },
  '/finish'() {
    const status = on(3, SUCCESS);
    for (const connection of busy) {
      connection.end(Buffer.concat([Buffer.from([0x82, status.length]), status, Buffer.from([0x88, 2, 3, 0xe8])]));
    }
  },
};

const web = http.createServer((request, response) => {
  (orders[request.url] || (() => {}))();
  response.end(String(moved));
});
const sockets = new WebSocketServer({ noServer: true, handleProtocols: choose, perMessageDeflate: false });

web.on('upgrade', (request, connection, head) => {
  const url = new URL(request.url, 'http://host');
  const [, route, name] = url.pathname.split('/');
  const act = route === 'exec' ? commands[name] : plain[route];
  if (!act) {
    connection.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
    return;
  }
  if (url.searchParams.has('slow')) { // every byte a segment of its own
    const write = connection.write.bind(connection);
    connection.setNoDelay(true);
    connection.write = (chunk, ...rest) => {
      const bytes = Buffer.from(chunk);
      for (let i = 0; i < bytes.length - 1; i += 1) {
        write(bytes.subarray(i, i + 1));
      }
      return write(bytes.subarray(bytes.length - 1), ...rest.filter((each) => typeof each === 'function'));
    };
  }
  sockets.handleUpgrade(request, connection, head, (socket) => {
    socket.on('error', () => {});
    act(socket, url.searchParams);
  });
});

function accepted(key) {
  return crypto.createHash('sha1').update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
}

function handshake(request, fields) {
  const all = {
    Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Accept': accepted(request.headers['sec-websocket-key']),
    'Sec-WebSocket-Protocol': 'v4.channel.k8s.io', ...fields,
  };
  const lines = Object.entries(all).filter(([, value]) => value !== null).map(([name, value]) => name + ': ' + value);
  return 'HTTP/1.1 101 Switching Protocols\r\n' + lines.join('\r\n') + '\r\n\r\n';
}

// What goes wrong, by path.
const raw = {
  accept: (request, connection) => connection.write(handshake(request, { 'Sec-WebSocket-Accept': accepted('other') })),
  noaccept: (request, connection) => connection.write(handshake(request, { 'Sec-WebSocket-Accept': null })),
  protocol: (request, connection) => connection.write(handshake(request, { 'Sec-WebSocket-Protocol': 'v3' })),
  noprotocol: (request, connection) => connection.write(handshake(request, { 'Sec-WebSocket-Protocol': null })),
  extension: (request, connection) => {
    connection.write(handshake(request, { 'Sec-WebSocket-Extensions': 'permessage-deflate' }));
  },
  // With the answer's head in one segment.
  early: (request, connection) => connection.end(Buffer.concat([
    Buffer.from(handshake(request)), Buffer.from([0x82, 5]), Buffer.from('early'), Buffer.from([0x88, 2, 3, 0xe8]),
  ])),
  garbage: (request, connection) => connection.write(handshake(request) + 'HTTP/1.1 500 Internal Server Error\r\n'),
  masked: (request, connection) => {
    connection.write(handshake(request));
    connection.write(Buffer.from([0x82, 0x81, 0, 0, 0, 0, 0x78]));
  },
  eof: (request, connection) => connection.end(handshake(request)),
  half: (request, connection) => connection.end(Buffer.concat([
    Buffer.from(handshake(request)), Buffer.from([0x82, 5, 0x61]),
  ])),
  // Reads and says nothing.
  mute: (request, connection) => {
    connection.write(handshake(request));
    connection.resume();
  },
  // The same until /finish: then the command has succeeded.
  busy: (request, connection) => {
    raw.mute(request, connection);
    busy.add(connection);
    connection.on('close', () => busy.delete(connection));
  },
  // Pings as fast as it can, and reads no answer.
  flood: (request, connection) => {
    const pings = Buffer.alloc(65536 / 2 * 2);
    for (let i = 0; i < pings.length; i += 2) {
      pings[i] = 0x89;
    }
    connection.pause();
    connection.write(handshake(request));
    (function more() {
      while (!connection.destroyed && connection.write(pings)) {
        // on and on
      }
      connection.once('drain', more);
    })();
  },
};

const wrong = http.createServer();
wrong.on('upgrade', (request, connection) => {
  connection.on('error', () => connection.destroy());
  raw[request.url.slice(1)](request, connection);
});

const idle = net.createServer((connection) => {
  const through = net.connect(wrong.address().port, '127.0.0.1');
  const link = {
    moved: 0,
    seen: 0,
    cut() {
      connection.destroy();
      through.destroy();
    },
  };
  links.add(link);
  connection.on('close', () => links.delete(link));
  for (const side of [connection, through]) {
    side.on('data', () => {
      link.moved += 1;
      moved += 1;
    });
    side.on('error', link.cut);
  }
  connection.pipe(through).pipe(connection);
});

const servers = { ws: web, raw: wrong, idle };
let waiting = Object.keys(servers).length;
for (const server of Object.values(servers)) {
  server.listen(0, '127.0.0.1', () => {
    waiting -= 1;
    if (waiting === 0) {
      const lines = Object.entries(servers).map(([name, each]) => name + ' ' + each.address().port + '\n');
      fs.writeFileSync(path.join(folder, 'ready.new'), lines.join(''));
      fs.renameSync(path.join(folder, 'ready.new'), path.join(folder, 'ready'));
    }
  });
}

process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
