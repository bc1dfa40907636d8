'use strict';

// @kubernetes/client-node as a peer: peer.js VERB COUNT NAMESPACE [POD] prints one time in milliseconds a line.
//
//   acquire COUNT NAMESPACE    a pod created and looked at until it runs, then deleted, COUNT times; without the deletion
//   exec COUNT NAMESPACE POD   `true` in a pod, up to its status

const { createRequire } = require('module');
const { Writable } = require('stream');

const k8s = createRequire(process.env.CHAMVI_BENCH_NODE_MODULES + '/')('@kubernetes/client-node');

const [verb, count, namespace, name] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromDefault();
const api = config.makeApiClient(k8s.CoreV1Api);
const exec = new k8s.Exec(config);

async function timed(work) {
    const start = process.hrtime.bigint();
    await work();
    return Number(process.hrtime.bigint() - start) / 1e6;
}

async function acquire(index) {
    const body = JSON.parse(process.env.CHAMVI_BENCH_BODY);
    body.metadata.name += `-${process.pid}-${index}`;
    const pod = { namespace, name: body.metadata.name };
    const took = await timed(async () => {
        await api.createNamespacedPod({ namespace, body });
        for (;;) {
            const { status } = await api.readNamespacedPod(pod);
            if (status.phase === 'Running') {
                return;
            }
            await new Promise((resolve) => { setTimeout(resolve, 100); });
        }
    });
    await api.deleteNamespacedPod({ ...pod, gracePeriodSeconds: 0 });
    return took;
}

const nowhere = () => new Writable({ write: (chunk, encoding, done) => done() });

async function run() {
    const status = await new Promise((resolve, reject) => {
        exec.exec(namespace, name, 'sandbox', ['true'], nowhere(), nowhere(), null, false, resolve).catch(reject);
    });
    if (status.status !== 'Success') {
        throw new Error(status.message);
    }
}

async function main() {
    for (let i = 0; i < count; i += 1) {
        console.log(verb === 'acquire' ? await acquire(i) : await timed(run));
    }
    process.exit(0); // client-node leaves connections open
}

main().catch((error) => {
    console.error(error.message);
    process.exit(1);
});
