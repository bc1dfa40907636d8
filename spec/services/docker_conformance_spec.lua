-- The conformance suite on Docker's engine, on the same over TCP with TLS, and on Podman.

local conformance = require "spec.support.conformance"
local docker_target = require "spec.support.docker_target"

for _, service in ipairs({ "docker", "docker-tls", "podman" }) do
    describe("workspaces on " .. service, function()
        local target, reason = docker_target.new(service)
        if not target then
            it("pass the conformance suite", function()
                pending(reason)
            end)
            return
        end
        teardown(target.close)
        conformance({ describe = describe, it = it, after_each = after_each }, target)
    end)
end
