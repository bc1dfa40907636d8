'use strict';

// Node's child_process.spawn as a participant (the protocol: bench/support/participant.lua). Done at the
// `close` event: the process has exited and both pipes are at end of file. Chunks are counted and dropped.

const { spawn } = require('node:child_process');
const readline = require('node:readline');

// A copy made once: by default every spawn copies process.env anew, through its slow accessors.
const env = { ...process.env };
const options = { stdio: ['ignore', 'pipe', 'pipe'], env };

// Runs a command and calls done(failure) or done(undefined, missing bytes).
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

// One after the other, each timed.
function exec(count, bytes, argv, done) {
    const latencies = [];
    let missing = 0;
    const next = () => {
        const start = process.hrtime.bigint();
        runOnce(argv, bytes, (failure, lost) => {
            const latency = process.hrtime.bigint() - start;
            if (failure) {
                done(failure);
                return;
            }
            missing += lost;
            latencies.push(latency);
            if (latencies.length < count) {
                next();
            } else {
                done(undefined, missing, latencies);
            }
        });
    };
    next();
}

// All at once, timed as a whole.
function together(count, bytes, argv, done) {
    const start = process.hrtime.bigint();
    let left = count;
    let missing = 0;
    let firstFailure;
    for (let i = 0; i < count; i++) {
        runOnce(argv, bytes, (failure, lost) => {
            firstFailure = firstFailure || failure;
            missing += lost || 0;
            left--;
            if (left === 0) {
                done(firstFailure, missing, [process.hrtime.bigint() - start]);
            }
        });
    }
}

const verbs = { exec, together };

function serve(line) {
    const [verb, count, bytes, ...argv] = line.split(' ');
    verbs[verb](Number(count), Number(bytes), argv, (failure, missing, latencies) => {
        process.stdout.write(failure ? `error ${failure}\n` : `${missing} ${latencies.join(' ')}\n`);
    });
}

readline.createInterface({ input: process.stdin }).on('line', serve);
