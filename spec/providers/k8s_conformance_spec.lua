local conformance = require "spec.support.conformance"
local k8s_server = require "spec.support.k8s_server"
local targets = require "spec.support.k8s_server_target"

for _, version in ipairs({ "v5", "v4" }) do
    describe("pods of a server that speaks " .. version, function()
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
