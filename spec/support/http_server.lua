-- Starts the servers of http_server.js, with certificates made for the occasion.

local sandbox = require "chamvi.sandbox"
local scratch = require "spec.support.scratch"

local http_server = {}

-- A CA and what it signs: `server` for localhost, `expired`, `other` for another name, `client`; a `stranger` that
-- nobody signs for; `locked-key`, the client's key under a pass phrase.
local CERTIFICATES = [[
    set -e
    cd "$1"
    key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1-key.pem"; }
    self() { key "$1"; openssl req -new -x509 -key "$1-key.pem" -subj "/CN=$1" -days 30 -out "$1.pem"; }
    sign() {
        key "$1"
        openssl req -new -key "$1-key.pem" -subj "/CN=$1" -out "$1.csr"
        printf '%s\n' "$3" >"$1.ext"
        openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days "$2" -extfile "$1.ext" \
            -out "$1.pem" 2>&1
    }
    self ca
    self stranger
    sign server 30 'subjectAltName=DNS:localhost,IP:127.0.0.1'
    sign expired -1 'subjectAltName=DNS:localhost,IP:127.0.0.1'
    sign other 30 'subjectAltName=DNS:engine.example'
    sign client 30 'extendedKeyUsage=clientAuth'
    openssl ec -in client-key.pem -aes128 -passout pass:secret -out locked-key.pem 2>&1
]]

---@class spec.HttpServer
---@field folder string with the certificates and the unix socket, `socket`
---@field ports table<string, integer>
---@field stop fun()

--- Starts them and waits until they listen.
---@return spec.HttpServer
function http_server.start()
    local folder = scratch.folder()
    scratch.write(folder .. "/make", CERTIFICATES)
    scratch.shell(("sh %s/make %s"):format(folder, folder))
    local input = assert(io.popen(("node spec/support/http_server.js %s"):format(folder), "w"))
    local ports = {}
    for _ = 1, 1000 do
        local ready = scratch.read(folder .. "/ready")
        if ready then
            for name, port in ready:gmatch("(%w+) (%d+)\n") do
                ports[name] = tonumber(port)
            end
            break
        end
        sandbox.sleep(20)
    end
    assert(ports.unix, "the servers don't start")
    return {
        folder = folder,
        ports = ports,
        stop = function()
            input:close()
            scratch.remove(folder)
        end,
    }
end

return http_server
