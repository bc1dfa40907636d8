// Sends requests to an HTTP server on a unix socket, some at a time, and prints how they went as one JSON line:
// requests.js SOCKET PATH COUNT AT_A_TIME

'use strict';

const http = require('http');

const [socketPath, path, count, atATime] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: false, maxSockets: Number(atATime) });
const outcomes = {};
let left = Number(count);

function end(outcome) {
    outcomes[outcome] = (outcomes[outcome] || 0) + 1;
    left -= 1;
    if (left === 0) {
        console.log(JSON.stringify(outcomes));
    }
}

for (let index = 0; index < Number(count); index += 1) {
    http.get({ socketPath, path, agent }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk) => {
            text += chunk;
        });
        response.on('end', () => end(`${response.statusCode} ${text.trim()}`));
    }).on('error', (error) => end(error.message));
}
