package server

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFreePorts: a port that was given is given to nobody else until its server
// listens, neither here nor by the kernel.
func TestFreePorts(t *testing.T) {
	t.Parallel()
	first := kernelPorts()
	if first-firstPort < portTries {
		t.Skip("the kernel keeps no ports back: its first is ", first)
	}
	seen := map[int]bool{}
	for range 50 {
		port, err := Port("127.0.0.1", 0)
		if err != nil {
			t.Fatal(err)
		}
		if port < firstPort || port >= first || seen[port] {
			t.Fatalf("port %d; the kernel gives away those from %d on, and given were %v", port, first, seen)
		}
		seen[port] = true
	}
	if _, err := Port("192.0.2.1", 0); err == nil {
		t.Error("a port of a machine that is not this one")
	}
}

// TestWantedPort: the error says whether another program has it.
func TestWantedPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := Port("127.0.0.1", port); err == nil || !strings.Contains(err.Error(), "is in use by another program") {
		t.Errorf("a port in use: %v", err)
	}
	if _, err := Port("192.0.2.1", port); err == nil || strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "cannot be listened on") {
		t.Errorf("an address of another machine: %v", err)
	}
}

// TestPortsOfOtherProcesses: a port that another process has given to a server which
// does not listen yet is not given here, and is again when that process has ended.
func TestPortsOfOtherProcesses(t *testing.T) {
	const variable = "SERVER_TEST_PORT_AFTER"
	if after := os.Getenv(variable); after != "" {
		var n uint32
		if _, err := fmt.Sscan(after, &n); err != nil {
			t.Fatal(err)
		}
		given.Store(n)
		port, err := Port("127.0.0.1", 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("port %d\n", port)
		return
	}
	if kernelPorts()-firstPort < portTries {
		t.Skip("the kernel keeps no ports back")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// It begins to count where this process did.
	elsewhere := func(begin uint32) int {
		cmd := exec.Command(exe, "-test.run", "^TestPortsOfOtherProcesses$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, begin))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var port int
		_, said, _ := strings.Cut(string(out), "port ")
		if _, err := fmt.Sscan(said, &port); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return port
	}
	begin := given.Load()
	ours, err := Port("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := elsewhere(begin)
	if theirs == ours {
		t.Errorf("port %d was given twice", ours)
	}
	given.Store(begin)
	reserved.mu.Lock()
	for _, c := range reserved.held {
		c.Close()
	}
	reserved.held = nil
	reserved.mu.Unlock()
	// Nobody has it any more; somebody else may listen there, and then it is given to
	// neither.
	if again, err := Port("127.0.0.1", 0); err != nil || again != ours && listens("127.0.0.1", ours) == nil && reserved.take(ours) {
		t.Errorf("port %d, %v; %d is free", again, err, ours)
	}
}
