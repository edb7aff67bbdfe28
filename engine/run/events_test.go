package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// smallDisk takes so many bytes.
type smallDisk struct {
	bytes.Buffer
	room int
}

func (d *smallDisk) Write(b []byte) (int, error) {
	n := min(len(b), max(0, d.room-d.Len()))
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func (d *smallDisk) Truncate(size int64) error {
	d.Buffer.Truncate(int(size))
	return nil
}

func (d *smallDisk) Close() error { return nil }

// TestEventsOnAFullDisk: an event that does not fit leaves nothing behind, and those
// behind it that fit are there, such as the end of the run.
func TestEventsOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := &smallDisk{room: 1000}
	e := &events{file: disk, runID: "r", ended: make(chan struct{})}
	e.write("info", "message", "short", "", nil)
	e.write("info", "message", string(bytes.Repeat([]byte("long"), 300)), "", nil)
	res := &Applied{}
	e.runEnd(res)
	var got []string
	for d := json.NewDecoder(bytes.NewReader(disk.Bytes())); d.More(); {
		var line struct{ Type string }
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%v\n%s", err, disk.Bytes())
		}
		got = append(got, line.Type)
	}
	if len(got) != 2 || got[1] != "run_end" {
		t.Errorf("got %q", got)
	}
	if code := res.ExitCode(); code != ExitError {
		t.Errorf("exit code %d of a run whose event is missing", code)
	}
}
