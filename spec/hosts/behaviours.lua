-- What holds in every host, the same in each. `spec/hosts/support/run.lua` runs these one after another, as one task
-- of the host; what they get is described there.

local behaviours = {}

for _, part in ipairs({ "commands", "tasks" }) do
    for _, behaviour in ipairs(require("spec.hosts.behaviours." .. part)) do
        table.insert(behaviours, behaviour)
    end
end

return behaviours
