local conformance = require "spec.support.conformance"
local k8s_server = require "spec.support.k8s_server"
local targets = require "spec.support.k8s_server_target"

-- What differs between the versions of the protocol is the same code on both Luas; k8s_exec_spec.lua runs both on both.
local VERSIONS = { "v5", not jit and "v4" or nil }

for _, version in ipairs(VERSIONS) do
    local tag = version == "v4" and " #unsanitized" or ""
    describe("pods of a server that speaks " .. version .. tag, function()
        local missing = k8s_server.missing()
        if missing then
            it("pass the conformance suite", function()
                pending(missing)
            end)
            return
        end

        local server = k8s_server.start()
        server:order({ protocols = { version .. ".channel.k8s.io" } })
        teardown(function()
            server:stop()
        end)
        conformance({ describe = describe, it = it, after_each = after_each }, targets.new(server, version))
    end)
end
