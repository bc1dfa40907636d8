-- Records beside the workspaces' folders, written by somebody hostile (more: spec/providers/local_collect_spec.lua).
-- Whatever a record is or says, a collection ends in time, removes no more than what carries the record's name, and
-- never leaves the root.

local core = require "chamvi.sandbox.core"
local scratch = require "spec.support.scratch"
local support = require "spec.support.local_workspace"

local LIFETIME_MS = 1800000 -- of a workspace whose record says nothing usable
local LOCKER = [[
    use Fcntl qw(:DEFAULT :seek);
    my ($file, $start, $number) = @ARGV;
    $SIG{TERM} = "IGNORE" if $ENV{STUBBORN};
    sysopen(my $record, $file, O_RDWR) or die $!;
    # struct flock of 64-bit Linux
    fcntl($record, $number // F_SETLK, pack("s s x4 q q i x4", F_WRLCK, SEEK_SET, $start, 1, 0)) or die $!;
    $| = 1; print "$$\n"; sleep 60;
]]
local OFD_SETLK = 37

describe("a collection", function()
    local place = support.place({ teardown = teardown, before_each = before_each, after_each = after_each })
    local outside = place.folder .. "/outside"
    local count = 0

    before_each(function()
        scratch.shell(("mkdir -p %s/sub; echo outside >%s/f; echo outside >%s/sub/f"):format(outside, outside, outside))
    end)

    -- Nothing outside the root has changed.
    after_each(function()
        assert.equal("outside\n", scratch.read(outside .. "/f"))
        assert.equal("outside\n", scratch.read(outside .. "/sub/f"))
        assert.same({ "f", "sub" }, scratch.list(outside))
        scratch.remove(outside)
        scratch.shell(("rm -rf %s/shared %s/record"):format(place.folder, place.folder))
    end)

    local function collect(later_ms)
        return place.provider({
            clock = {
                now = function()
                    return core.now_ms() + (later_ms or 0)
                end,
            },
        }):collect_garbage()
    end

    local function new_id()
        count = count + 1
        return ("%08x-0000-4000-8000-000000000000"):format(count)
    end

    -- What a workspace owns, made by hand; its record is made by `script`, which finds its path in $R and a place
    -- outside the root in $O.
    local function stray(script)
        local id = new_id()
        local path = place.root .. "/" .. id
        scratch.shell(([[
            mkdir -p %s/deep %s.home %s.tmp; ln -s %s %s/deep/out; ln -s %s/f %s.home/f
            export R=%s.json O=%s
            %s
        ]]):format(path, path, path, outside, path, outside, path, path, outside, script))
        return id, path
    end

    local function written(text)
        return "cat >$R <<'END'\n" .. text .. "\nEND\n"
    end

    local function left(id)
        local names = {}
        for _, name in ipairs(scratch.list(place.root)) do
            if name:sub(1, #id) == id then
                table.insert(names, name)
            end
        end
        return #names
    end

    -- Starts a process that locks a byte of a record; its pid.
    local function lock(path, start, number, environment)
        local log = place.folder .. "/locker"
        os.remove(log)
        scratch.shell(("%s perl -e %s %s.json %d %s >%s 2>&1 &"):format(
            environment or "", scratch.quote(LOCKER), path, start, number or "", log))
        support.wait_until(function()
            return (scratch.read(log) or ""):find("\n")
        end, "a lock")
        return assert(scratch.read(log):match("^(%d+)\n$"), scratch.read(log))
    end

    local function kill(pid)
        scratch.shell(("kill -KILL %s $(cat /proc/%s/task/%s/children)"):format(pid, pid, pid))
        support.wait_until(function()
            return not scratch.is_alive(pid)
        end, "the end of who held a lock")
    end

    -- Over at once, whatever else they say.
    local expired = {
        ["a negative time"] = written('{"expires_at":-1e300}'),
        ["time 0"] = written('{"expires_at":0}'),
        ["a time with a fraction"] = written('{"expires_at":0.5}'),
        ["other ids and names"] = written('{"id":"ffffffff-0000-4000-8000-000000000000","names":["..","../outside"],'
            .. '"root":"/","path":"../outside","expires_at":1}'),
        ["a hard link"] = [[echo '{"expires_at":1}' >$O/../shared; ln $O/../shared $R]],
        ["closed to everybody"] = written('{"expires_at":1}') .. "chmod 000 $R",
    }
    -- Say nothing usable, so the time counts from when they were written.
    local damaged = {
        ["a time that is an object"] = written('{"expires_at":{"expires_at":1}}'),
        ["a time that is a list"] = written('{"expires_at":[1]}'),
        ["a time that is true"] = written('{"expires_at":true}'),
        ["a time that is null"] = written('{"expires_at":null}'),
        ["a time that is text"] = written('{"expires_at":"1"}'),
        ["no JSON number"] = written('{"expires_at":NaN}'),
        ["a number alone"] = written("1"),
        ["text alone"] = written('"expires_at"'),
        ["escapes of no character"] = written([[{"\u0000":1,"\ud800":"\udfff","expires_at":1}]]),
        ["more than one value"] = written('{"expires_at":1}{"expires_at":1}'),
        ["deep objects"] = [[perl -e 'print "{\"expires_at\":" x 20000' >$R]],
        ["deep lists, closed"] = [[perl -e 'print "[" x 30000, "]" x 30000' >$R]],
        ["sparse and huge"] = "truncate -s 1T $R",
        ["huge, with a time in front"] = [[{ echo '{"expires_at":1,"x":"'; head -c 3000000 /dev/zero; } >$R]],
        ["a folder"] = "mkdir -p $R/deep; ln -s $O $R/deep/out; ln -s $O/f $R/f",
        ["a link to a record"] = [[echo '{"expires_at":1}' >$O/../record; ln -s ../record $R]],
        ["a link to a folder"] = "ln -s $O $R",
        ["a dangling link"] = "ln -s nowhere $R",
        ["a link to itself"] = "ln -s $R $R",
        ["a link to a device"] = "ln -s /dev/zero $R",
        ["a fifo"] = "mkfifo $R",
        ["a socket"] = [[perl -MSocket -e "socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\$ENV{R})) or die"]],
        ["a device"] = "[ $(id -u) != 0 ] || mknod $R c 1 5; [ -e $R ] || mkfifo $R",
    }

    it("removes at once what a record says is over, and that alone", function()
        local keep = stray(written(('{"expires_at":%d}'):format(core.now_ms() + 600000)))
        local number = 0
        for what, script in pairs(expired) do
            -- A root may read what is closed to everybody; others can't, so it counts as damaged.
            if what ~= "closed to everybody" or scratch.shell("id -u") == "0\n" then
                stray(script)
                number = number + 1
            end
        end
        assert.equal(number, collect())
        assert.equal(4, left(keep))
        assert.equal(4, #scratch.list(place.root))
        assert.equal(1, collect(600000))
    end)

    it("counts from the time of the file where a record says nothing", function()
        local ids, number = {}, 0
        for what, script in pairs(damaged) do
            ids[what] = stray(script)
            number = number + 1
        end
        local names = scratch.list(place.root)
        assert.equal(0, collect())
        assert.equal(0, collect(LIFETIME_MS - 60000))
        assert.same(names, scratch.list(place.root))
        local removed, err = collect(LIFETIME_MS + 1)
        for what, id in pairs(ids) do
            assert.same({ what, 0 }, { what, left(id) })
        end
        assert.equal(number, removed, tostring(err))
        assert.same({}, scratch.list(place.root))
    end)

    it("believes a file's time also where that is far in the past or in the future", function()
        local past = stray("touch -d 1975-01-01 $R")
        local future = stray("touch -d 2400-01-01 $R")
        local oldest = stray("touch -d @-10000000000 $R")
        assert.equal(2, collect())
        assert.same({ 0, 4, 0 }, { left(past), left(future), left(oldest) })
        assert.equal(0, collect(LIFETIME_MS + 1))
        scratch.shell(("touch %s/%s.json"):format(place.root, future))
        assert.equal(1, collect(LIFETIME_MS + 60000))
    end)

    it("ends who holds a record's lock, if he lets himself be ended", function()
        local id, path = stray(written('{"expires_at":1}'))
        local pid = lock(path, 0)
        assert.equal(1, collect())
        assert.equal(0, left(id))
        assert.is_false(scratch.is_alive(pid))
    end)

    it("gives up in time on one whose lock somebody keeps, says so, and removes the others", function()
        local kept, path = stray(written('{"expires_at":1}'))
        local pid = lock(path, 0, nil, "STUBBORN=1")
        local other = stray(written('{"expires_at":1}'))
        local removed, err = collect()
        assert.is_nil(removed)
        assert.equal("gc_failed", err.code)
        assert.equal(1, err.count)
        assert.is_truthy(err.detail:find(kept, 1, true))
        assert.same({ 4, 0 }, { left(kept), left(other) })
        kill(pid)
        assert.equal(1, collect())
    end)

    it("leaves one that another collection has locked to that", function()
        local id, path = stray(written('{"expires_at":1}'))
        local pid = lock(path, 1)
        assert.equal(0, collect())
        assert.equal(4, left(id))
        kill(pid)
        assert.equal(1, collect())
    end)

    it("is not held up by locks of other kinds", function()
        local id, path = stray(written('{"expires_at":1}'))
        local pid = lock(path, 0, OFD_SETLK)
        local damaged_id, damaged_path = stray("echo >$R")
        local second = lock(damaged_path, 0, OFD_SETLK)
        local command = ("exec flock -x %s.json sleep 60 >/dev/null 2>&1 & echo $!"):format(path)
        local flock = scratch.shell(command):match("%d+")
        -- Whose such a lock is can't be told, so nobody is asked to end.
        local removed = collect(LIFETIME_MS + 1)
        assert.is_true(removed == nil or removed <= 1)
        assert.is_true(left(id) == 0 or left(id) == 4)
        assert.equal(4, left(damaged_id))
        for _, locker in ipairs({ pid, second, flock }) do
            kill(locker)
        end
        assert.is_number(collect(LIFETIME_MS + 1))
        assert.same({}, scratch.list(place.root))
    end)

    it("takes a thousand hostile records in one go", function()
        scratch.shell(([[
            cd %s
            for i in $(seq 1000 1999); do
                id=0000$i-0000-4000-8000-000000000000
                case $((i %% 5)) in
                0) echo '{"expires_at":1}' >$id.json ;;
                1) mkfifo $id.json ;;
                2) ln -s ../outside $id.json ;;
                3) mkdir $id.json ;;
                4) head -c 65537 /dev/zero >$id.json ;;
                esac
            done
        ]]):format(place.root))
        assert.equal(200, collect())
        assert.equal(800, collect(LIFETIME_MS + 60000))
        assert.same({}, scratch.list(place.root))
    end)
end)
