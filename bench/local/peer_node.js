'use strict';

// Node's child_process.spawn as a participant (the protocol: bench/support/participant.lua). Done at the
// `close` event: the process has exited and both pipes are at end of file. Chunks are counted and dropped.

const { spawn } = require('node:child_process');
const readline = require('node:readline');

// A copy made once: by default every spawn copies process.env anew, through its slow accessors.
const env = { ...process.env };
const options = { stdio: ['ignore', 'pipe', 'pipe'], env };

function runOnce(argv, bytes, done) {
    let got = 0;
    let failure;
    const child = spawn(argv[0], argv.slice(1), options);
    child.stdout.on('data', (chunk) => {
        got += chunk.length;
    });
    child.stderr.resume();
    child.on('error', (error) => {
        failure = error.message;
    });
    child.on('close', (code, signal) => {
        if (failure || code !== 0) {
            done(failure || `${argv[0]}: exit code ${code}, signal ${signal}`);
        } else {
            done(undefined, bytes - got);
        }
    });
}

function serve(line) {
    const [, count, bytes, ...argv] = line.split(' ');
    const latencies = [];
    let missing = 0;
    const next = () => {
        const start = process.hrtime.bigint();
        runOnce(argv, Number(bytes), (failure, lost) => {
            const latency = process.hrtime.bigint() - start;
            if (failure) {
                process.stdout.write(`error ${failure}\n`);
                return;
            }
            missing += lost;
            latencies.push(latency);
            if (latencies.length < Number(count)) {
                next();
            } else {
                process.stdout.write(`${missing} ${latencies.join(' ')}\n`);
            }
        });
    };
    next();
}

readline.createInterface({ input: process.stdin }).on('line', serve);
