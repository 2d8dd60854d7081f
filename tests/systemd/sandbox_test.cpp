// What the unit's sandbox denies, tried by a probe in the hub's place.
#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <string>

#include "support/files.hpp"
#include "systemd/host.hpp"

using namespace pgwake::test;

namespace {

// Prints a line per attempt: its name, and `denied` or what it got.
constexpr const char* probe = R"(
use strict; use warnings; use Socket; use POSIX ();
$| = 1;
sub try_it { my ($name, $code) = @_; my $got = eval { $code->() }; print "PROBE $name=", ($got ? "allowed" : "denied"), "\n"; }
sub writes { my $path = shift; return sub { my $f; open($f, '>', $path) && close($f) }; }
sub reads { my $path = shift; return sub { my $f; -d $path ? opendir($f, $path) : open($f, '<', $path) }; }
sub opens { my ($family, $type, $protocol) = @_; return sub { socket(my $s, $family, $type, $protocol // 0) }; }
try_it('write own folder', writes("/run/pgwake/$ARGV[0]/probe"));
try_it('write other folder', writes('/run/pgwake/probe'));
try_it('write etc', writes('/etc/pgwake/probe'));
try_it('write usr', writes('/usr/probe'));
try_it('write var', writes('/var/lib/probe'));
try_it('write run', writes('/run/probe'));
try_it('write other hub', writes('/run/pgwake/neighbour/probe'));
try_it('remove the socket of another hub', sub { unlink('/run/pgwake/neighbour/pgwake.sock') });
try_it('write locks', writes('/run/lock/pgwake/probe'));
try_it('read home', reads('/root'));
try_it('read shadow', reads('/etc/shadow'));
try_it('read kernel log', reads('/dev/kmsg'));
try_it('read devices', reads('/dev/fuse'));
try_it('see other processes', sub { -d '/proc/1' });
try_it('unix socket', opens(AF_UNIX, SOCK_STREAM));
try_it('inet socket', opens(AF_INET, SOCK_STREAM));
try_it('inet6 socket', opens(10, SOCK_STREAM));
try_it('netlink socket', opens(16, SOCK_DGRAM));
try_it('packet socket', opens(17, SOCK_DGRAM));
try_it('vsock socket', opens(40, SOCK_STREAM));
try_it('raw socket', opens(AF_INET, SOCK_RAW, 1));
try_it('become root', sub { POSIX::setuid(0) });
try_it('gain privileges', sub { my $id = `/usr/bin/su root -c id </dev/null 2>/dev/null`; ($id // '') =~ /uid=0/ });
try_it('no new privileges is off', sub { my $f; open($f, '<', '/proc/self/status'); !grep { /^NoNewPrivs:\s*1/ } <$f> });
try_it('hold a capability', sub { my $f; open($f, '<', '/proc/self/status'); grep { /^Cap(Eff|Prm|Bnd|Amb):\s*0*[1-9a-f]/ } <$f> });
try_it('mount', sub { my ($what, $where) = ('tmpfs', '/tmp'); syscall(165, $what, $where, $what, 0, 0) == 0 });
try_it('set-user-ID file', sub { my $p = "/run/pgwake/$ARGV[0]/suid"; my $f; open($f, '>', $p); chmod(04755, $p) });
try_it('other machine', sub { syscall(135, 0x0008) == 0 });
try_it('memory to write and run', sub { my $a = syscall(9, 0, 4096, 7, 0x22, -1, 0); $a != -1 });
# Last: whoever succeeds is nobody afterwards.
try_it('new user namespace', sub { syscall(272, 0x10000000) == 0 });
print "PROBE end=denied\n";
)";

// What a probe's output says of each attempt.
std::map<std::string, std::string> verdicts(const std::string& said) {
  std::map<std::string, std::string> found;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);)
    if (const auto equals = line.rfind('='); line.starts_with("PROBE ") && equals != line.npos)
      found[line.substr(6, equals - 6)] = line.substr(equals + 1);
  return found;
}

}  // namespace

TEST_CASE("systemd: the sandbox denies files outside, other address families and new privileges") {
  const instance hub("sandboxed", "");
  // One user runs all hubs, so the sandbox alone keeps one from another.
  const instance neighbour("neighbour", "database = \"host=/nonexistent\"\n");
  neighbour.start();
  const std::string script = "/usr/local/lib/pgwake-probe.pl";  // /tmp is private there, and /root hidden
  write_file(script, probe);
  hub.drop_in(hub.unit(),
              "[Service]\nType=oneshot\nWatchdogSec=0\nRestart=no\nExecStart=\nExecStart=/usr/bin/perl " +
                  script + " sandboxed\n");
  command({"systemctl", "start", hub.unit()});
  const auto said = journal(hub.unit());
  CAPTURE(said);
  auto inside = verdicts(said);
  CHECK(can_connect(neighbour.socket()));
  // The same attempts as root without the sandbox: each succeeds, so the probe can tell. Where this machine
  // itself is a sandbox, a few fail there too: those are named and show nothing.
  auto outside = verdicts(command_ok({"perl", script, "sandboxed"}));
  REQUIRE(inside.contains("end"));
  REQUIRE(inside.size() == outside.size());
  CHECK(inside.size() >= 28);
  int proves_nothing = 0;
  for (const auto& [name, verdict] : inside) {
    if (name == "end") continue;
    INFO(name);
    if (outside[name] != "allowed") {
      ++proves_nothing;
      WARN("this machine denies `" << name << "` without the unit's sandbox too");
    }
    const bool needed = name == "write own folder" || name == "unix socket" || name == "inet socket" ||
                        name == "inet6 socket";
    CHECK(verdict == (needed ? "allowed" : "denied"));
  }
  CHECK(proves_nothing <= 4);
}

TEST_CASE("systemd: systemd-analyze security says 1.5 or less") {
  const instance hub("analyzed", "");
  const auto table = command_ok({"systemd-analyze", "security", "--no-pager", hub.unit()});
  const std::string mark = "Overall exposure level for " + hub.unit() + ": ";
  const auto at = table.find(mark);
  REQUIRE(at != std::string::npos);
  INFO(table);
  CHECK(std::stod(table.substr(at + mark.size())) <= 1.5);
}
