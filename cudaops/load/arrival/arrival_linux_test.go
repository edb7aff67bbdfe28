package arrival

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
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

// TestWritesWait writes more than the kernel buffers.
func TestWritesWait(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := Conn(raw)
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	data := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	if err := client.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := client.Write(data)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n >= len(data) {
		t.Fatalf("a write that nobody reads: %d bytes, %v", n, err)
	}

	if err := client.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte)
	go func() {
		b := make([]byte, len(data))
		_, _ = io.ReadFull(server, b) // a short read is an error below
		got <- b
	}()
	if m, err := client.Write(data[n:]); err != nil || n+m != len(data) {
		t.Errorf("%d of %d bytes, %v", n+m, len(data), err)
	}
	if !bytes.Equal(<-got, data) {
		t.Error("the server read other data")
	}

	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = client.Write([]byte("x"))
	}
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "write" {
		t.Errorf("a write to a closed connection: %v", err)
	}
}
