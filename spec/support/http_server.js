// The servers that spec/unit/http_spec.lua asks: HTTP on a unix socket and on TCP, HTTPS in several states of
// disrepair, and a proxy. Usage: node http_server.js FOLDER
//
// OpenSSL's own server is among them, since Node's just closes where others refuse a client's certificate.
//
// FOLDER holds the certificates (http_server.lua makes them). `ready` appears there with one line "name port"
// for each server, once all listen. Ends when its standard input does.
'use strict';
const child = require('child_process');
const fs = require('fs');
const http = require('http');
const https = require('https');
const net = require('net');
const path = require('path');

const folder = process.argv[2];
const pem = (name) => fs.readFileSync(path.join(folder, name + '.pem'));

const counts = { connections: 0, proxied: 0, flooded: 0 };

function json(response, status, value) {
  const body = JSON.stringify(value);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

function echo(request, response) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => json(response, 200, {
    method: request.method,
    url: request.url,
    headers: request.headers,
    body: Buffer.concat(parts).toString('latin1'),
    client: request.socket.getPeerCertificate ? (request.socket.getPeerCertificate().subject || {}).CN : undefined,
    name: request.socket.servername,
  }));
}

let pullOn = () => {};

// Lines of JSON as an engine reports a pull, each but the first when another request asks for it.
function pull(response) {
  response.writeHead(200, { 'Content-Type': 'application/json' });
  let line = 0;
  pullOn = () => {
    line += 1;
    response.write(JSON.stringify({ status: 'Downloading', current: line }) + '\r\n');
    if (line === 5) {
      pullOn = () => {};
      response.end(JSON.stringify({ error: 'no such image' }));
    }
  };
  pullOn();
}

// As many bytes as are asked for, as fast as they are taken.
function flood(response, left) {
  const block = Buffer.alloc(65536, 'x');
  response.writeHead(200, { 'Content-Length': left });
  (function more() {
    while (left > 0) {
      const size = Math.min(left, block.length);
      left -= size;
      counts.flooded += size;
      if (!response.write(block.subarray(0, size))) {
        response.once('drain', more);
        return;
      }
    }
    response.end();
  })();
}

function answer(request, response) {
  const [, route, argument] = request.url.split('/');
  switch (route) {
    case 'echo': echo(request, response); break;
    case 'counts': json(response, 200, counts); break;
    case 'pull': pull(response); break;
    case 'pull_on': pullOn(); json(response, 200, {}); break;
    case 'flood': flood(response, Number(argument)); break;
    case 'hang': break;
    case 'cut':
      response.writeHead(200, { 'Content-Length': 10 });
      response.write('half', () => response.socket.destroy());
      break;
    case 'two':
      response.setHeader('X-Two', ['a', 'b']);
      json(response, 200, {});
      break;
    default: json(response, 404, { message: 'no such route' });
  }
}

function frame(type, text) {
  const head = Buffer.alloc(8);
  head[0] = type;
  head.writeUInt32BE(text.length, 4);
  return Buffer.concat([head, text]);
}

const upgrades = {
  echo(socket, head) {
    socket.write(head);
    socket.on('data', (data) => { if (!socket.write(data)) { socket.pause(); } });
    socket.on('drain', () => socket.resume());
    socket.on('end', () => socket.end());
  },
  // Says what it has read once its reader has ended, as a command that reads its stdin to the end.
  count(socket, head) {
    let bytes = head.length;
    socket.on('data', (data) => { bytes += data.length; });
    socket.on('end', () => socket.end(String(bytes)));
  },
  // Reads nothing for a while, and says how many bytes have come.
  late(socket, head) {
    let bytes = head.length;
    socket.on('data', (data) => {
      bytes += data.length;
      socket.write(bytes + '\n');
    });
    socket.pause();
    setTimeout(() => socket.resume(), 200);
  },
  docker(socket) {
    socket.write(Buffer.concat([frame(1, Buffer.from('out')), frame(2, Buffer.from('err'))]));
    socket.end(frame(1, Buffer.from('put')));
  },
  reset(socket) {
    const end = () => (socket.encrypted ? socket.destroy() : socket.resetAndDestroy());
    socket.write('last words', () => setTimeout(end, 50));
  },
};

function upgrade(request, socket, head) {
  const act = upgrades[request.url.slice(1)];
  socket.on('error', () => socket.destroy());
  if (!act) {
    socket.end('HTTP/1.1 409 Conflict\r\nContent-Length: 11\r\n\r\nnot running');
    return;
  }
  let left = Number(request.headers['content-length'] || 0) - head.length;
  const open = () => {
    socket.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: ' + request.headers.upgrade + '\r\n\r\n');
    act(socket, head.subarray(Math.min(head.length, Number(request.headers['content-length'] || 0))));
  };
  if (left <= 0) {
    open();
  } else {
    socket.on('data', function body(data) {
      left -= data.length;
      if (left <= 0) {
        socket.removeListener('data', body);
        open();
      }
    });
  }
}

const ports = [];
let waiting = 0;

function listens(name, port) {
  ports.push(name + ' ' + port);
  waiting -= 1;
  if (waiting === 0) {
    fs.writeFileSync(path.join(folder, 'ready.new'), ports.join('\n') + '\n');
    fs.renameSync(path.join(folder, 'ready.new'), path.join(folder, 'ready'));
  }
}

function listen(name, server, where) {
  waiting += 1;
  server.on('connection', () => { counts.connections += 1; });
  server.on('clientError', (error, socket) => socket.destroy());
  server.on('error', (error) => { throw error; });
  server.listen(where, () => listens(name, server.address().port || 0));
}

const children = [];

function openssl(name, ...options) {
  const file = (pem) => path.join(folder, pem + '.pem');
  const server = child.spawn('openssl', ['s_server', '-accept', '127.0.0.1:0', '-www',
    '-cert', file('server'), '-key', file('server-key'), '-CAfile', file('ca'), '-Verify', '1',
    '-verify_return_error', ...options], { stdio: ['pipe', 'pipe', 'ignore'] });
  let printed = '';
  waiting += 1;
  children.push(server);
  server.stdout.on('data', function announced(data) {
    printed += data;
    const found = printed.match(/ACCEPT 127\.0\.0\.1:(\d+)/);
    if (found) {
      server.stdout.removeListener('data', announced).resume();
      listens(name, found[1]);
    }
  });
}

function web(module, options) {
  const server = module.createServer({ keepAliveTimeout: 60000, allowHalfOpen: true, ...options }, answer);
  server.on('upgrade', upgrade);
  return server;
}

function proxy() {
  const server = http.createServer((request, response) => {
    counts.proxied += 1;
    json(response, 200, { proxied: request.url });
  });
  server.on('connect', (request, socket, head) => {
    counts.proxied += 1;
    const [host, port] = request.url.split(':');
    const through = net.connect({ host, port }, () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      through.write(head);
      socket.pipe(through).pipe(socket);
    });
    through.on('error', () => socket.destroy());
    socket.on('error', () => through.destroy());
  });
  return server;
}

const tcp = { host: '127.0.0.1', port: 0 };
const secure = (name, options) => web(https, { cert: pem(name), key: pem(name + '-key'), ...options });

listen('unix', web(http), path.join(folder, 'socket'));
listen('plain', web(http), tcp);
listen('tls', secure('server'), tcp);
listen('expired', secure('expired'), tcp);
listen('other', secure('other'), tcp);
listen('client', secure('server', { ca: pem('ca'), requestCert: true, rejectUnauthorized: true }), tcp);
listen('client12', secure('server', {
  ca: pem('ca'), requestCert: true, rejectUnauthorized: true, maxVersion: 'TLSv1.2',
}), tcp);
listen('proxy', proxy(), tcp);

openssl('strict');
openssl('strict12', '-tls1_2');

process.stdin.resume();
process.stdin.on('end', () => {
  children.forEach((server) => server.kill());
  process.exit(0);
});
