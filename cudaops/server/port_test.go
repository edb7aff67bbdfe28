package server

import (
	"net"
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
