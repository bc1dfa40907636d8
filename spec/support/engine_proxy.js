// A proxy before an engine, that disturbs what it is told to; without an engine it answers by itself. Usage:
//
//   node engine_proxy.js FOLDER
//
// Listens at FOLDER/socket and forwards to the engine's unix socket, which FOLDER/engine names if there is an engine.
// FOLDER/log gets a line "METHOD PATH" for each request as it comes, the path without its version, which goes to
// FOLDER/versions. FOLDER/rules.json is read for each request: a list of rules, of which the first one counts whose
// `match` (a regular expression for the line of the log) fits and that has not been used `times` times (none: always).
// A rule:
//
//   id          tells rules apart, so that uses are counted across changes of the file
//   run         a shell command that runs first; what it prints goes nowhere
//   delay_ms    waits before anything else happens
//   until       waits after that until there is a file of this path
//   act         "pass" (default); "drop": the connection is cut and the engine never asked; "lose": the engine is asked,
//               and the connection is cut instead of the answer; "hang": nobody is asked and nothing answered; "mute":
//               the engine is asked, nothing answered; "answer": `status`, `headers` and `body` without the engine;
//               "cut": the answer (of an upgrade: what follows its head) is cut after `bytes` bytes
//
// Ends when its standard input does.
'use strict';
const child = require('child_process');
const fs = require('fs');
const http = require('http');
const net = require('net');
const path = require('path');

const folder = process.argv[2];
const file = (name) => path.join(folder, name);
const engine = fs.readFileSync(file('engine'), 'utf8');
const used = {};

function ruleFor(request) {
  const line = request.method + ' ' + request.url.replace(/^\/v\d+\.\d+(?=\/)/, '');
  fs.appendFileSync(file('log'), line + '\n');
  fs.appendFileSync(file('versions'), (/^\/(v\d+\.\d+)\//.exec(request.url) || ['', 'none'])[1] + '\n');
  for (const rule of JSON.parse(fs.readFileSync(file('rules.json'), 'utf8'))) {
    if (new RegExp(rule.match).test(line) && (used[rule.id] || 0) < (rule.times || Infinity)) {
      used[rule.id] = (used[rule.id] || 0) + 1;
      return rule;
    }
  }
  return {};
}

function prepare(rule, then) {
  if (rule.run) {
    child.spawnSync('sh', ['-c', rule.run], { stdio: 'ignore' });
  }
  const go = () => {
    if (rule.until && !fs.existsSync(rule.until)) {
      setTimeout(go, 20);
    } else {
      then();
    }
  };
  setTimeout(go, rule.delay_ms || 0);
}

// Passes on at most so many bytes, then calls `over`.
function limited(bytes, pass, over) {
  let left = bytes === undefined ? Infinity : bytes;
  return (chunk) => {
    pass(chunk.subarray(0, Math.min(left, chunk.length)));
    left -= chunk.length;
    if (left <= 0) {
      over();
    }
  };
}

function forward(request, response, rule) {
  const asked = http.request({
    socketPath: engine,
    method: request.method,
    path: request.url,
    headers: request.headers,
  });
  const cut = () => request.socket.destroy();
  asked.on('error', cut);
  asked.on('response', (answer) => {
    if (rule.act === 'mute' || rule.act === 'lose') {
      answer.resume();
      answer.on('end', () => rule.act === 'lose' && cut());
      return;
    }
    response.writeHead(answer.statusCode, answer.headers);
    response.flushHeaders();
    answer.on('data', limited(rule.act === 'cut' ? rule.bytes : undefined, (chunk) => response.write(chunk), cut));
    answer.on('end', () => response.end());
    answer.on('error', cut);
    response.on('close', () => answer.destroy());
  });
  request.pipe(asked);
}

function answer(response, rule) {
  const body = rule.body || '';
  response.writeHead(rule.status, Object.assign({ 'Content-Length': Buffer.byteLength(body) }, rule.headers));
  response.end(body);
}

const server = http.createServer((request, response) => {
  const rule = ruleFor(request);
  prepare(rule, () => {
    if (rule.act === 'drop') {
      request.socket.destroy();
    } else if (rule.act === 'answer') {
      answer(response, rule);
    } else if (rule.act !== 'hang') {
      forward(request, response, rule);
    }
  });
});

// Sends the request as it came, and then both directions as they come.
function relay(request, socket, head, rule) {
  const upstream = net.connect({ path: engine, allowHalfOpen: true });
  const cut = () => {
    socket.destroy();
    upstream.destroy();
  };
  const lines = [`${request.method} ${request.url} HTTP/1.1`];
  for (let index = 0; index < request.rawHeaders.length; index += 2) {
    lines.push(`${request.rawHeaders[index]}: ${request.rawHeaders[index + 1]}`);
  }
  upstream.write(lines.join('\r\n') + '\r\n\r\n');
  upstream.write(head);
  socket.on('data', (chunk) => upstream.write(chunk) || socket.pause());
  upstream.on('drain', () => socket.resume());
  socket.on('end', () => upstream.end());

  let begin = Buffer.alloc(0); // the answer, until its head is whole
  const pass = limited(rule.act === 'cut' ? rule.bytes : undefined, (chunk) => {
    if (!socket.write(chunk)) {
      upstream.pause();
    }
  }, cut);
  let inHead = true;
  upstream.on('data', (chunk) => {
    if (rule.act === 'lose') {
      cut();
    } else if (rule.act !== 'mute' && inHead) {
      begin = Buffer.concat([begin, chunk]);
      const end = begin.indexOf('\r\n\r\n');
      if (end >= 0) {
        inHead = false;
        socket.write(begin.subarray(0, end + 4));
        if (rule.act === 'cut' && rule.bytes === 0) {
          socket.end();
          upstream.destroy();
        } else if (begin.length > end + 4) {
          pass(begin.subarray(end + 4));
        }
      }
    } else if (rule.act !== 'mute') {
      pass(chunk);
    }
  });
  socket.on('drain', () => upstream.resume());
  upstream.on('end', () => rule.act === 'mute' || socket.end());
  socket.on('error', cut);
  socket.on('close', cut);
  upstream.on('error', cut);
}

server.on('upgrade', (request, socket, head) => {
  const rule = ruleFor(request);
  prepare(rule, () => {
    if (rule.act === 'drop') {
      socket.destroy();
    } else if (rule.act === 'answer') {
      const body = rule.body || '';
      const headers = Object.assign({ 'Content-Length': Buffer.byteLength(body) }, rule.headers);
      const lines = Object.keys(headers).map((name) => `${name}: ${headers[name]}\r\n`);
      socket.end(`HTTP/1.1 ${rule.status} Answer\r\n${lines.join('')}\r\n${body}`);
    } else if (rule.act !== 'hang') {
      relay(request, socket, head, rule);
    }
  });
});

server.keepAliveTimeout = 60000;
server.listen(file('socket'), () => fs.writeFileSync(file('ready'), 'socket 0\n'));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
