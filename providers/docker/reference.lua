-- References of images: [registry/]name[:tag][@digest].
-- https://github.com/distribution/reference/blob/main/reference.go, familiar names included.

local reference = {}

-- The key of Docker Hub in ~/.docker/config.json.
local HUB = "https://index.docker.io/v1/"

---@class chamvi.ImageReference
---@field repository string registry and name, for `fromImage`
---@field tag string the digest, else the tag, else "latest"
---@field registry string its key among credentials

--- Takes a reference apart.
---@param image string
---@return chamvi.ImageReference|nil # nil when it is none
function reference.parse(image)
    -- Not the whole grammar, only what would be something else in a URL; the engine knows the rest.
    local rest = image:match("^%[[%x:]+%]:?%d*/(.*)$") or image -- behind an IPv6 address
    if not rest:find("^%w[%w._/:@+-]*$") or rest:find("/[./]") then
        return nil
    end
    local name, digest = image:match("^(.-)@(.+)$")
    name = name or image
    local repository, tag = name:match("^(.+):([^/:]+)$")
    repository = repository or name
    local first = repository:match("^([^/]+)/")
    -- Names have no upper-case letters, hosts may.
    local is_host = first and (first:find("[.:%u]") or first == "localhost")
    local registry = is_host and first or HUB
    if registry == "docker.io" or registry == "index.docker.io" then
        registry = HUB
    end
    return { repository = repository, tag = digest or tag or "latest", registry = registry }
end

return reference
