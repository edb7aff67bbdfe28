package arrival

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestArrivalIsTheKernelsTime reads data some time after it arrived.
func TestArrivalIsTheKernelsTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}

	a, ok := Conn(client).(*conn)
	if !ok {
		t.Skip("the kernel reports no arrivals")
	}

	var b [16]byte
	var before, after time.Time
	for range 100 { // the kernel starts to stamp some time after the first socket asked for it
		before = time.Now()
		if _, err := server.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		after = time.Now()
		for time.Since(after) < 20*time.Millisecond { // as if other goroutines had the processor
		}

		n, err := a.Read(b[:])
		if err != nil || string(b[:n]) != "hello" {
			t.Fatalf("%q, %v", b[:n], err)
		}
		if a.Arrived() > 0 {
			break
		}
	}

	at := time.Unix(0, a.Arrived())
	if at.Before(before.Add(-time.Millisecond)) || at.After(after.Add(10*time.Millisecond)) {
		t.Errorf("the data arrived %v after it was sent", at.Sub(before))
	}

	// An end, a deadline and a closed connection are as without arrivals.
	if err := a.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(b[:]); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("a read after the deadline: %v", err)
	}
	if err := a.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(b[:]); err != io.EOF {
		t.Errorf("a read after the end: %v", err)
	}
}
