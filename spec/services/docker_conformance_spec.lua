-- The conformance suite on Docker's engine, on the same over TCP with TLS, and on Podman.

local conformance = require "spec.support.conformance"
local docker_target = require "spec.support.docker_target"

local busted = { describe = describe, it = it, after_each = after_each, teardown = teardown, pending = pending }

docker_target.each(busted, { "docker", "docker-tls", "podman" }, "workspaces", function(target)
    conformance(busted, target)
end)
