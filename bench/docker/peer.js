'use strict';

// dockerode as a peer: peer.js VERB COUNT CONTAINER... prints one time in milliseconds a line.
//
//   acquire COUNT        a container created and started, then removed, COUNT times; the time of both first steps
//   exec COUNT ID        `true` in a container, with its output read to the end and its exit code asked for
//   together COUNT ID... COUNT execs of `true` at once, spread over the containers; one time

const Docker = require(process.env.CHAMVI_BENCH_DOCKERODE);

const [verb, count, ...ids] = process.argv.slice(2);
const socketPath = process.env.CHAMVI_TEST_DOCKER_HOST.replace(/^unix:\/\//, '');
const docker = new Docker({ socketPath });

async function timed(work) {
    const start = process.hrtime.bigint();
    await work();
    return Number(process.hrtime.bigint() - start) / 1e6;
}

async function acquire() {
    let container;
    const took = await timed(async () => {
        container = await docker.createContainer(JSON.parse(process.env.CHAMVI_BENCH_BODY));
        await container.start();
    });
    await container.remove({ force: true, v: true });
    return took;
}

async function exec(id) {
    const exec = await docker.getContainer(id).exec({ Cmd: ['true'], AttachStdout: true, AttachStderr: true });
    const stream = await exec.start({ hijack: true, stdin: false });
    await new Promise((resolve, reject) => {
        stream.on('end', resolve).on('error', reject).resume();
    });
    const { ExitCode } = await exec.inspect();
    if (ExitCode !== 0) {
        throw new Error(`exit code ${ExitCode}`);
    }
}

async function main() {
    if (verb === 'together') {
        const all = [];
        console.log(await timed(async () => {
            for (let i = 0; i < count; i += 1) {
                all.push(exec(ids[i % ids.length]));
            }
            await Promise.all(all);
        }));
        return;
    }
    for (let i = 0; i < count; i += 1) {
        console.log(verb === 'acquire' ? await acquire() : await timed(() => exec(ids[0])));
    }
}

main().catch((error) => {
    console.error(error.message);
    process.exit(1);
});
