local reference = require "chamvi.sandbox.docker.reference"

describe("a reference to an image", function()
    local HUB = "https://index.docker.io/v1/"
    local digest = "sha256:" .. ("a"):rep(64)

    it("is taken apart", function()
        for image, parts in pairs({
            debian = { "debian", "latest", HUB },
            ["debian:12"] = { "debian", "12", HUB },
            ["library/debian:12"] = { "library/debian", "12", HUB },
            ["docker.io/library/debian"] = { "docker.io/library/debian", "latest", HUB },
            ["index.docker.io/a/b"] = { "index.docker.io/a/b", "latest", HUB },
            ["ghcr.io/chamvi/sandbox-node:24"] = { "ghcr.io/chamvi/sandbox-node", "24", "ghcr.io" },
            ["localhost/image"] = { "localhost/image", "latest", "localhost" },
            ["localhost:5000/image"] = { "localhost:5000/image", "latest", "localhost:5000" },
            ["host:5000/a/b:tag"] = { "host:5000/a/b", "tag", "host:5000" },
            ["MyReg/x"] = { "MyReg/x", "latest", "MyReg" },
            ["a/B"] = { "a/B", "latest", HUB },
            ["[::1]:5000/x"] = { "[::1]:5000/x", "latest", "[::1]:5000" },
            ["[FE80::1]/a/b:tag@" .. digest] = { "[FE80::1]/a/b", digest, "[FE80::1]" },
            ["debian@" .. digest] = { "debian", digest, HUB },
            ["host.example/a:tag@" .. digest] = { "host.example/a", digest, "host.example" },
        }) do
            local found = assert(reference.parse(image), image)
            assert.same(parts, { found.repository, found.tag, found.registry })
        end
    end)

    it("is nothing that would be another path in a URL", function()
        local list = { "", "/x", "../x", "a/../b", "a/./b", "a//b", "a b", "a?b", "a#b", "a%2fb", "a\n", "é",
            "[::1]", "[::1]:5000", "[::1]:5000/", "[::1]/../x", "[::1]x/y", "[]/x", "[host]/x", "x/[::1]/y" }
        for _, wrong in ipairs(list) do
            assert.is_nil(reference.parse(wrong), wrong)
        end
    end)
end)
