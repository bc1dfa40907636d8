// Pods for k8s_server.js: Linux namespaces of this machine with what it has, and /workspace. The container's own program
// is the first process there, and runs as user 1000, as a kubelet would have it.
'use strict';
const child = require('child_process');
const fs = require('fs');
const path = require('path');

const USER = '1000';

const FIRST = `
set -e
here=$1
shift
mount -t tmpfs none "$here/root"
for entry in /*; do
    name=\${entry#/}
    case $name in proc | workspace) continue ;; esac
    if [ -L "$entry" ]; then
        ln -s "$(readlink "$entry")" "$here/root/$name"
    elif [ -d "$entry" ]; then
        mkdir "$here/root/$name"
        mount --rbind "$entry" "$here/root/$name"
    fi
done
mkdir "$here/root/workspace" "$here/root/proc"
mount --bind "$here/volume" "$here/root/workspace"
mount -t proc proc "$here/root/proc"
cd /
exec chroot "$here/root" sh -c ': >"$0"; exec "$@"' "$here/ready" "$@"
`;

// What stands before a program of the container: its user, its environment.
function prefix(pod) {
  const env = ['PATH=/usr/local/bin:/usr/bin:/bin', 'LANG=C.UTF-8'];
  for (const { name, value } of pod.spec.containers[0].env || []) {
    env.push(name + '=' + value.replace(/\$\$/g, '$'));
  }
  return ['setpriv', '--reuid', USER, '--regid', USER, '--clear-groups', '--no-new-privs', 'env', '-i',
    '-C', '/workspace', ...env];
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') { // it has ended by itself
      throw error;
    }
  }
}

class Container {
  // `ended(code)` is called once.
  constructor(pod, folder, ended) {
    this.pod = pod;
    this.folder = folder;
    fs.mkdirSync(path.join(folder, 'root'), { recursive: true });
    fs.mkdirSync(path.join(folder, 'volume'));
    fs.chmodSync(path.join(folder, 'volume'), 0o777);
    const { command, args } = pod.spec.containers[0];
    const own = [...command, ...args].map((word) => word.replace(/\$\$/g, '$'));
    this.process = child.spawn('unshare', ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', FIRST, 'sh', folder,
      ...prefix(pod), ...own], { stdio: ['ignore', 'ignore', fs.openSync(folder + '.log', 'a')] });
    this.process.on('exit', (code, signal) => {
      this.over = true;
      fs.rmSync(folder, { recursive: true, force: true });
      ended(signal ? 137 : code);
    });
  }

  running() {
    return !this.over && fs.existsSync(path.join(this.folder, 'ready'));
  }

  // The first process, by this machine's number; empty once there is none.
  first() {
    const pid = this.process.pid;
    try {
      return fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    } catch {
      return '';
    }
  }

  // A program in the container.
  run(argv, stdin) {
    return child.spawn('nsenter', ['-t', this.first(), '-m', '-p', '-r', 'setsid', ...prefix(this.pod), ...argv],
      { stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'] });
  }

  // Kills the first process, and with it all others.
  kill() {
    const first = this.running() && Number(this.first());
    if (first) { // else it has ended, and its parent is about to
      kill(first);
    } else if (!this.over) {
      this.process.kill('SIGKILL');
    }
  }
}

module.exports = { Container };
