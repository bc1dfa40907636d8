-- Starts the servers of http_server.js, with certificates made for the occasion.

local node_server = require "spec.support.node_server"
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

--- Starts them and waits until they listen. The folder has the certificates and the unix socket, `socket`.
---@return spec.NodeServer
function http_server.start()
    local folder = scratch.folder()
    scratch.write(folder .. "/make", CERTIFICATES)
    scratch.shell(("sh %s/make %s"):format(folder, folder))
    return node_server.start("spec/support/http_server.js", folder)
end

return http_server
