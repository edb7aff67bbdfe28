package server

import (
	"net"
	"strings"
	"testing"
)

func TestFreePorts(t *testing.T) {
	t.Parallel()
	for range 50 {
		port, err := Port("127.0.0.1", 0)
		if err != nil {
			t.Fatal(err)
		}
		if port < firstPort || port > lastPort {
			t.Fatalf("port %d, want %d to %d", port, firstPort, lastPort)
		}
	}
	if _, err := Port("192.0.2.1", 0); err == nil {
		t.Error("a port of another machine was returned")
	}
}

// TestWantedPort checks that the error reports whether another program uses the port.
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
	if _, err := Port("192.0.2.1", port); err == nil || strings.Contains(err.Error(), "in use") ||
		!strings.Contains(err.Error(), "cannot be listened on") {
		t.Errorf("an address of another machine: %v", err)
	}
}
