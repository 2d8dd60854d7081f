// What the unit's sandbox denies, tried by a probe in the hub's place.
#include <catch2/catch.hpp>
#include <sstream>

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
sub opens { my ($family, $type) = @_; return sub { socket(my $s, $family, $type, 0) }; }
try_it('write own folder', writes("/run/pgwake/$ARGV[0]/probe"));
try_it('write other folder', writes('/run/pgwake/probe'));
try_it('write etc', writes('/etc/pgwake/probe'));
try_it('write usr', writes('/usr/probe'));
try_it('write var', writes('/var/lib/probe'));
try_it('write run', writes('/run/probe'));
try_it('write dev', writes('/dev/shm/probe-other'));
try_it('read home', reads('/root'));
try_it('read shadow', reads('/etc/shadow'));
try_it('read kernel log', reads('/dev/kmsg'));
try_it('read disk', reads('/dev/mem'));
try_it('see other processes', sub { -d '/proc/1' });
try_it('unix socket', opens(AF_UNIX, SOCK_STREAM));
try_it('inet socket', opens(AF_INET, SOCK_STREAM));
try_it('inet6 socket', opens(10, SOCK_STREAM));
try_it('netlink socket', opens(16, SOCK_DGRAM));
try_it('packet socket', opens(17, SOCK_DGRAM));
try_it('vsock socket', opens(40, SOCK_STREAM));
try_it('raw socket', opens(AF_INET, SOCK_RAW));
try_it('become root', sub { POSIX::setuid(0) });
try_it('gain privileges', sub { my $id = `/usr/bin/su root -c id </dev/null 2>/dev/null`; ($id // '') =~ /uid=0/ });
try_it('no new privileges is off', sub { my $f; open($f, '<', '/proc/self/status'); !grep { /^NoNewPrivs:\s*1/ } <$f> });
try_it('hold a capability', sub { my $f; open($f, '<', '/proc/self/status'); grep { /^Cap(Eff|Prm|Bnd|Amb):\s*0*[1-9a-f]/ } <$f> });
try_it('mount', sub { syscall(165, "none", "/tmp", "tmpfs", 0, 0) == 0 });
try_it('new user namespace', sub { syscall(272, 0x10000000) == 0 });
try_it('set-user-ID file', sub { my $p = "/run/pgwake/$ARGV[0]/suid"; my $f; open($f, '>', $p); chmod(04755, $p) });
try_it('realtime', sub { my $p = pack('i', 1); syscall(144, 0, 1, $p) == 0 });
try_it('other machine', sub { syscall(135, 0x0008) == 0 });
try_it('memory to write and run', sub { my $a = syscall(9, 0, 4096, 7, 0x22, -1, 0); $a != -1 });
try_it('set the clock', sub { my $t = pack('qq', 0, 0); syscall(227, 0, $t) == 0 });
print "PROBE end=denied\n";
)";

}  // namespace

TEST_CASE("systemd: the sandbox denies files outside, other address families and new privileges") {
  const instance hub("sandboxed", "");
  // In the instance's folder, since /tmp is private and /root hidden; the text itself comes by the drop-in.
  write_file("/usr/local/lib/pgwake-probe.pl", probe);
  hub.drop_in(hub.unit(),
              "[Service]\nType=oneshot\nWatchdogSec=0\nRestart=no\nExecStart=\n"
              "ExecStart=/usr/bin/perl /usr/local/lib/pgwake-probe.pl sandboxed\n");
  command({"systemctl", "start", hub.unit()});
  const auto said = journal(hub.unit());
  CAPTURE(said);
  REQUIRE_THAT(said, Catch::Contains("PROBE end=denied"));
  std::istringstream lines(said);
  int denied = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("PROBE ")) continue;
    const auto equals = line.find('=');
    const auto name = line.substr(6, equals - 6);
    const bool wanted = name == "write own folder" || name == "unix socket" || name == "inet socket" ||
                        name == "inet6 socket";
    INFO(name);
    // /dev/shm is the service's own, and empty.
    if (name != "write dev") CHECK(line.substr(equals + 1) == (wanted ? "allowed" : "denied"));
    denied += wanted ? 0 : 1;
  }
  CHECK(denied >= 24);
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
