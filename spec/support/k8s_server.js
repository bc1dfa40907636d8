// A Kubernetes API server for specs, as far as pods and their exec go, with real processes behind it. It keeps to the
// protocols, v4 and v5, except where a spec asks for a fault. Usage: node k8s_server.js FOLDER
//
// `ready` appears in FOLDER with the port, once it listens.
//
// Specs give orders by POST /control, each a JSON object:
//
//   {tokens: [...]}             the bearer tokens that are accepted
//   {protocols: [...]}          of exec, the best first
//   {statuses: {image: status}} pods of these images never run, and have this status
//   {page: n}                   lists have no more than so many pods at once
//   {rules: [...]}              faults, see below; they replace those before
//   {pod: name, merge: {...}}   changes a pod's object
//   {kill: name}                ends a pod's container as the kernel would
//   {run: name}                 runs a pod that did not, for its image
//   {outage: ms}                cuts all connections, and refuses new ones for so long
//   {forget: true}              forgets what was counted
//
// and ask by GET /control for {pods, requests, execs, pings}.
//
// A rule is for requests of a `method` whose path and query match the expression `path`, for so many `times`:
//
//   delay_ms          waits first
//   status, body, headers   the answer, instead of the true one
//   cut               "request": no answer; "head": within its head; "body": within its body
//   carry_out         with `status` or `cut`: what was asked for is done all the same
//   exec              how an exec that was accepted goes wrong:
//     output_bytes    cut, as a connection is, after so many bytes of output; 0: at once
//     stdin_bytes     the same for input
//     status          what comes instead of the status; null: nothing, and a regular close
//     stays           "silent", or "loud" with output, instead of a close after the status
//     fragments       every message comes in so many frames
//     idle_ms         cut when nothing has gone either way for so long
//     protocol        the answer names this one
//     accept          the answer has this for a key
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const path = require('path');
const { Container } = require('./k8s_pods.js');

function load(name) {
  try {
    return require(name);
  } catch {
    return require('/usr/share/nodejs/' + name); // Debian's, for a Node that is not
  }
}
const WebSocket = load('ws');

const folder = process.argv[2];
const NAMESPACE = '/api/v1/namespaces/sandboxes';
const V4 = 'v4.channel.k8s.io';
const V5 = 'v5.channel.k8s.io';

const settings = { tokens: ['token'], protocols: [V5, V4], statuses: {}, rules: [] };
const pods = new Map(); // name -> { object, container }
let requests = [];
let execs = 0;
let pings = 0; // of the execs' connections
let version = 0;

// ---- Answers --------------------------------------------------------------------------------------

function send(response, status, body, headers, cut) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const all = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text), ...headers };
  if (cut === 'head') {
    response.socket.write('HTTP/1.1 200 OK\r\nContent-Ty');
    response.socket.destroySoon();
    return;
  }
  response.writeHead(status, all);
  if (cut === 'body') {
    response.write(text.slice(0, text.length / 2), () => response.socket.destroy());
    return;
  }
  response.end(text);
}

function failure(code, reason, message) {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code };
}

const missing = (name) => [404, failure(404, 'NotFound', `pods "${name}" not found`)];

// ---- Pods -----------------------------------------------------------------------------------------

function touch(object) {
  version += 1;
  object.metadata.resourceVersion = String(version);
}

function merge(base, more) {
  if (typeof base !== 'object' || base === null || Array.isArray(base) ||
      typeof more !== 'object' || more === null || Array.isArray(more)) {
    return more;
  }
  for (const [key, value] of Object.entries(more)) {
    base[key] = merge(base[key], value);
  }
  return base;
}

const containerStatus = (state, ready) =>
  [{ name: 'sandbox', image: 'spec', imageID: '', ready, restartCount: 0, state }];

function ended(pod, code) {
  if (pod.object.status.phase === 'Failed') {
    return; // somebody said why
  }
  const terminated = { exitCode: code, reason: code === 0 ? 'Completed' : 'Error' };
  merge(pod.object.status, {
    phase: code === 0 ? 'Succeeded' : 'Failed',
    containerStatuses: containerStatus({ terminated }, false),
  });
  touch(pod.object);
}

function watchStart(pod) {
  const timer = setInterval(() => {
    const running = pod.container.running(); // it may come to be at any moment
    if (running) {
      merge(pod.object.status, {
        phase: 'Running',
        conditions: [{ type: 'Ready', status: 'True' }],
        containerStatuses: containerStatus({ running: { startedAt: new Date().toISOString() } }, true),
      });
      touch(pod.object);
    }
    if (running || pod.container.over) {
      clearInterval(timer);
    }
  }, 10);
}

function create(object) {
  const name = object.metadata.name;
  if (pods.has(name)) {
    return [409, failure(409, 'AlreadyExists', `pods "${name}" already exists`)];
  }
  Object.assign(object.metadata, {
    namespace: 'sandboxes',
    uid: crypto.randomUUID(),
    creationTimestamp: new Date().toISOString(),
  });
  object.status = { phase: 'Pending', containerStatuses: containerStatus({ waiting: { reason: 'ContainerCreating' } }, false) };
  touch(object);
  const pod = { object };
  pods.set(name, pod);
  const status = settings.statuses[object.spec.containers[0].image];
  if (status) {
    object.status = status;
  } else {
    run(pod);
  }
  return [201, object];
}

function run(pod) {
  const place = path.join(folder, pod.object.metadata.name);
  pod.container = new Container(pod.object, place, (code) => ended(pod, code));
  watchStart(pod);
}

function remove(name) {
  const pod = pods.get(name);
  if (!pod) {
    return missing(name);
  }
  pods.delete(name);
  if (pod.container) {
    pod.container.kill();
  }
  return [200, pod.object];
}

function list(query) {
  const wanted = (query.get('labelSelector') || '').split(',').filter(Boolean).map((part) => part.split('='));
  const matching = [...pods.values()].map((pod) => pod.object)
    .filter((object) => wanted.every(([key, value]) => object.metadata.labels[key] === value));
  const from = Number(query.get('continue') || 0);
  const limit = Math.min(Number(query.get('limit') || matching.length), settings.page || Infinity);
  const more = from + limit < matching.length ? String(from + limit) : undefined;
  return [200, { kind: 'PodList', apiVersion: 'v1', metadata: { continue: more }, items: matching.slice(from, from + limit) }];
}

function carryOut(method, url, body) {
  const rest = url.pathname.startsWith(NAMESPACE + '/pods') ? url.pathname.slice(NAMESPACE.length) : null;
  const name = decodeURIComponent((rest || '').split('/')[2] || '');
  const act = method + (name ? ' one' : '');
  if (rest === null || rest.split('/').length > 3) {
    const verb = { POST: 'create', GET: 'list', 'GET one': 'get', 'DELETE one': 'delete' }[act];
    return [403, failure(403, 'Forbidden',
      `pods is forbidden: User "spec" cannot ${verb} resource "pods" in API group "" in the namespace "elsewhere"`)];
  }
  switch (act) {
    case 'POST': return create(JSON.parse(body));
    case 'GET': return list(url.searchParams);
    case 'GET one': return pods.has(name) ? [200, pods.get(name).object] : missing(name);
    case 'DELETE one': return remove(name);
    default: return [405, failure(405, 'MethodNotAllowed', method)];
  }
}

// ---- Requests -------------------------------------------------------------------------------------

// The fault for a request, used up.
function faultOf(method, url) {
  const rule = settings.rules.find((each) => (each.times === undefined || each.times > 0) &&
    (!each.method || each.method === method) && new RegExp(each.path || '').test(url));
  if (rule && rule.times !== undefined) {
    rule.times -= 1;
  }
  return rule || {};
}

function isAuthorized(request) {
  return settings.tokens.includes((request.headers.authorization || '').replace(/^Bearer /, ''));
}

const unauthorized = [401, failure(401, 'Unauthorized', 'Unauthorized')];
const bodyOf = (request) => new Promise((resolve) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => resolve(Buffer.concat(parts).toString()));
});
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function answer(request, response) {
  const body = await bodyOf(request);
  const url = new URL(request.url, 'http://server');
  if (url.pathname === '/control') {
    control(request, response, body);
    return;
  }
  requests.push(`${request.method} ${request.url}`);
  const fault = faultOf(request.method, request.url);
  await pause(fault.delay_ms || 0);
  let [status, result] = unauthorized;
  if (isAuthorized(request) && (fault.carry_out || (!fault.status && fault.cut !== 'request'))) {
    [status, result] = carryOut(request.method, url, body);
  }
  if (fault.cut === 'request') {
    request.socket.destroy();
    return;
  }
  if (fault.status) {
    [status, result] = [fault.status, fault.body === undefined ? failure(fault.status, 'Fault', 'a fault') : fault.body];
  }
  send(response, status, result, fault.headers, fault.cut);
}

function control(request, response, body) {
  if (request.method === 'GET') {
    send(response, 200, { pods: [...pods.values()].map((pod) => pod.object), requests, execs, pings });
    return;
  }
  const order = JSON.parse(body);
  for (const name of ['tokens', 'protocols', 'rules']) {
    if (order[name] !== undefined) {
      settings[name] = Object.values(order[name]); // an empty table of Lua is an object
    }
  }
  for (const name of ['statuses', 'page']) {
    if (order[name] !== undefined) {
      settings[name] = order[name];
    }
  }
  if (order.pod) {
    merge(pods.get(order.pod).object, order.merge);
    touch(pods.get(order.pod).object);
  }
  if (order.kill) {
    pods.get(order.kill).container.kill();
  }
  if (order.run) {
    run(pods.get(order.run));
  }
  if (order.forget) {
    requests = [];
    [execs, pings] = [0, 0];
  }
  send(response, 200, {});
  if (order.outage) {
    outage(order.outage);
  }
}

// ---- Exec -----------------------------------------------------------------------------------------

function refuse(socket, status, body, headers) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const fields = Object.entries({ 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text), ...headers });
  socket.end(`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\nConnection: close\r\n` +
    fields.map(([name, value]) => `${name}: ${value}\r\n`).join('') + '\r\n' + text);
}

// A message, in frames.
function message(socket, channel, bytes, fragments) {
  const whole = Buffer.concat([Buffer.from([channel]), bytes]);
  const size = Math.ceil(whole.length / Math.min(fragments || 1, whole.length));
  for (let from = 0; from < whole.length; from += size) {
    socket.send(whole.subarray(from, from + size), { binary: true, fin: from + size >= whole.length });
  }
}

function statusOf(code) {
  if (code === 0) {
    return { metadata: {}, status: 'Success' };
  }
  return {
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: exit status ${code}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(code) }] },
  };
}

function serve(socket, tcp, run, fault) {
  let idle;
  const active = () => {
    clearTimeout(idle);
    if (fault.idle_ms) {
      idle = setTimeout(() => { // what has come while this process stood still is read before the next timer
        idle = setTimeout(() => tcp.destroy(), 1);
      }, fault.idle_ms);
    }
  };
  tcp.on('data', active);
  tcp.on('close', () => clearTimeout(idle));
  active();

  let [sent, taken] = [0, 0];
  message(socket, 1, Buffer.alloc(0)); // as every server does
  if (fault.output_bytes === 0) {
    tcp.destroy();
  }
  for (const [channel, stream] of [[1, run.stdout], [2, run.stderr]]) {
    stream.on('data', (bytes) => {
      if (tcp.destroyed) {
        return; // the command runs on
      }
      active();
      sent += bytes.length;
      message(socket, channel, bytes, fault.fragments);
      if (fault.output_bytes && sent >= fault.output_bytes) {
        tcp.destroy();
      }
      if (socket.bufferedAmount > 262144) {
        stream.pause();
        const timer = setInterval(() => {
          if (socket.bufferedAmount < 65536 || tcp.destroyed) {
            clearInterval(timer);
            stream.resume();
          }
        }, 1);
      }
    });
  }
  socket.on('message', (data) => {
    if (data[0] === 0 && run.stdin) {
      taken += data.length - 1;
      if (fault.stdin_bytes !== undefined && taken >= fault.stdin_bytes) {
        tcp.destroy();
      } else if (!run.stdin.write(data.subarray(1))) {
        socket.pause();
        run.stdin.once('drain', () => socket.resume());
      }
    } else if (data[0] === 255 && data[1] === 0 && run.stdin && socket.protocol === V5) {
      run.stdin.end();
    }
  });
  if (run.stdin) {
    run.stdin.on('error', () => socket.resume()); // the command reads no more
    socket.on('close', () => run.stdin.end());
  }
  socket.on('ping', () => { pings += 1; });
  socket.on('error', () => {});
  run.on('close', (code, signal) => {
    if (tcp.destroyed) {
      return;
    }
    const status = fault.status === undefined ? statusOf(signal ? 137 : code) : fault.status;
    if (status !== null) {
      message(socket, 3, Buffer.from(typeof status === 'string' ? status : JSON.stringify(status)), fault.fragments);
    }
    if (fault.stays === 'loud') {
      const timer = setInterval(() => message(socket, 1, Buffer.from('more\n')), 20);
      tcp.on('close', () => clearInterval(timer));
    }
    if (!fault.stays) {
      socket.close(1000);
    }
  });
}

async function upgrade(request, tcp, head) {
  tcp.on('error', () => {});
  const url = new URL(request.url, 'http://server');
  requests.push(`EXEC ${request.url}`);
  const fault = faultOf('EXEC', request.url);
  await pause(fault.delay_ms || 0);
  const [, name] = url.pathname.match(/\/pods\/([^/]+)\/exec$/) || [];
  const pod = pods.get(name);
  const offered = (request.headers['sec-websocket-protocol'] || '').split(',').map((each) => each.trim());
  const protocol = settings.protocols.find((each) => offered.includes(each));
  if (fault.cut === 'request') {
    tcp.destroy();
  } else if (fault.cut === 'head') {
    tcp.end('HTTP/1.1 101 Switching Proto');
  } else if (fault.status) {
    refuse(tcp, fault.status, fault.body === undefined ? failure(fault.status, 'Fault', 'a fault') : fault.body, fault.headers);
  } else if (!isAuthorized(request)) {
    refuse(tcp, ...unauthorized);
  } else if (!pod) {
    refuse(tcp, ...missing(name));
  } else if (url.searchParams.get('container') !== 'sandbox') {
    refuse(tcp, 400, failure(400, 'BadRequest', 'container x is not valid for pod ' + name));
  } else if (!pod.container || !pod.container.running()) {
    refuse(tcp, 500, 'container not running', { 'Content-Type': 'text/plain' });
  } else if (!protocol) {
    refuse(tcp, 403, '');
  } else {
    accept(request, tcp, head, { pod, protocol, fault: fault.exec || {}, query: url.searchParams });
  }
}

function accept(request, tcp, head, { pod, protocol, fault, query }) {
  const server = new WebSocket.Server({ noServer: true, handleProtocols: () => fault.protocol || protocol, maxPayload: 0 });
  if (fault.accept) {
    server.on('headers', (headers) => {
      headers.forEach((line, index) => {
        if (/^sec-websocket-accept/i.test(line)) {
          headers[index] = 'Sec-WebSocket-Accept: ' + fault.accept;
        }
      });
    });
  }
  server.handleUpgrade(request, tcp, head, (socket) => {
    execs += 1;
    serve(socket, tcp, pod.container.run(query.getAll('command'), query.get('stdin') === 'true'), fault);
  });
}

// ---- The server -----------------------------------------------------------------------------------

const sockets = new Set();
const server = http.createServer(answer);
server.on('upgrade', upgrade);
server.on('connection', (socket) => {
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket));
});

let port = 0; // any
const listen = () => server.listen(port, '127.0.0.1');

function outage(ms) {
  server.close();
  setImmediate(() => sockets.forEach((socket) => socket.destroy()));
  setTimeout(listen, ms);
}

server.on('error', (error) => {
  if (error.code !== 'EADDRINUSE') {
    throw error;
  }
  setTimeout(listen, 50); // during an outage, a connection of another program may have the port
});
server.once('listening', () => {
  port = server.address().port;
  fs.writeFileSync(path.join(folder, 'port'), String(port));
  fs.renameSync(path.join(folder, 'port'), path.join(folder, 'ready'));
});
listen();
