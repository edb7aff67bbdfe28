package ops

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure/measuretest"
)

// fakeWork is one operation of the device.
type fakeWork struct {
	Name    string  // name of the kernel, or memcpy, memset
	Seconds float64 // at full clock
	Watts   float64 // above idle
	Share   float64 // fraction of the time that scales with the clock

	// Do, if not nil, runs when the device executes the work. A sticky error is returned by all later
	// calls.
	Do func(*fakeDriver) *cuda.DriverError

	// NoCapture makes the work fail inside a capture.
	NoCapture bool
}

// fakeDriver is a fake cuda.Driver. Its exported fields must be set before use.
type fakeDriver struct {
	cuda.Driver // nil, so that unimplemented calls panic

	GPU   *measuretest.GPU
	Clock *measuretest.Clock
	Infos []cuda.DeviceInfo
	CUDA  int // version; 0 means 13000

	// Launches returns the cost of a kernel. If it is nil or returns a Work without a name, a kernel takes
	// 3 us.
	Launches func(name string, k cuda.Launch) fakeWork

	// Fail, if not nil, is called before each call and may return an error for it.
	Fail func(call string) *cuda.DriverError

	// Resolution is the resolution of event times.
	Resolution time.Duration

	mu       sync.Mutex
	sticky   *cuda.DriverError
	used     int64
	allocs   map[cuda.Ptr]int64
	next     uint64
	names    map[cuda.Function]string
	shared   map[cuda.Function]int
	streams  map[cuda.Stream]*fakeStream
	events   map[cuda.Event]time.Duration
	graphs   map[uintptr][]fakeWork
	hosts    []cuda.HostMemory
	cycles   float64
	cyclesAt time.Duration

	// Executed counts executed work by name.
	Executed map[string]int

	// Open counts graphs, executables and allocations that were not freed.
	Open int
}

type fakeStream struct {
	queue     []fakeWork
	capturing bool
	captured  []fakeWork
	bad       bool
}

// newFakeDriver returns a driver with the given number of devices.
func newFakeDriver(gpu *measuretest.GPU, devices int) *fakeDriver {
	d := &fakeDriver{
		GPU: gpu, Clock: gpu.Clock, allocs: map[cuda.Ptr]int64{}, next: 1 << 32,
		names: map[cuda.Function]string{}, shared: map[cuda.Function]int{},
		streams: map[cuda.Stream]*fakeStream{}, events: map[cuda.Event]time.Duration{},
		graphs: map[uintptr][]fakeWork{}, Executed: map[string]int{}, Resolution: 32,
	}

	for i := range devices {
		d.Infos = append(d.Infos, cuda.DeviceInfo{
			Index: i, Name: "NVIDIA H200", UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i),
			PCI: fmt.Sprintf("0000:%02x:00.0", 0x18+i), MemoryBytes: 150109880320, SMs: 132, L2Bytes: 62914560,
			Major: 9,
		})
	}

	return d
}

// lock locks the driver and returns a function that unlocks it.
func (d *fakeDriver) lock() func() {
	d.mu.Lock()
	return d.mu.Unlock
}

// begin locks mu and returns an error if the call must fail. The caller must unlock mu if there is no
// error.
func (d *fakeDriver) begin(call string) error {
	d.mu.Lock()
	var err *cuda.DriverError
	if d.sticky != nil {
		err = d.sticky
	} else if d.Fail != nil {
		if err = d.Fail(call); err != nil && cuda.Sticky(err) {
			d.sticky = err
		}
	}

	if err == nil {
		return nil
	}

	d.mu.Unlock()
	failed := *err
	failed.Call = call
	return &failed
}

func (d *fakeDriver) handle() uint64 {
	d.next++
	return d.next
}

// Enqueue queues work on a stream, like a library does.
func (d *fakeDriver) Enqueue(s cuda.Stream, w fakeWork) error {
	if err := d.begin("enqueue " + w.Name); err != nil {
		return err
	}
	defer d.mu.Unlock()
	return d.enqueue(s, w)
}

func (d *fakeDriver) enqueue(s cuda.Stream, w fakeWork) error {
	st := d.streams[s]
	if st == nil {
		return cuda.NewDriverError("enqueue "+w.Name, cuda.CodeInvalidValue)
	}

	if !st.capturing {
		st.queue = append(st.queue, w)
		return nil
	}

	if w.NoCapture {
		st.bad = true
		return cuda.NewDriverError(w.Name, 900)
	}

	st.captured = append(st.captured, w)
	return nil
}

// drain executes a stream's work in order.
func (d *fakeDriver) drain(s cuda.Stream) error {
	st := d.streams[s]
	if st == nil {
		return cuda.NewDriverError("cuStreamSynchronize", cuda.CodeInvalidValue)
	}

	for len(st.queue) > 0 {
		w := st.queue[0]
		st.queue = st.queue[1:]
		d.tick()
		if w.Seconds > 0 {
			d.GPU.Execute(w.Seconds, w.Watts, w.Share)
			d.tick()
		}

		d.Executed[w.Name]++
		if w.Do == nil {
			continue
		}

		if err := w.Do(d); err != nil {
			st.queue = nil
			if cuda.Sticky(err) {
				d.sticky = err
			}
			return err
		}
	}

	return nil
}

// tick updates the cycle counter to the current time.
func (d *fakeDriver) tick() {
	now := d.Clock.Now()
	d.cycles += float64(now-d.cyclesAt) * d.GPU.MHz() / 1e3
	d.cyclesAt = now
}

// hostWord writes a word to mapped host memory.
func (d *fakeDriver) hostWord(p cuda.Ptr, v uint64) *cuda.DriverError {
	for _, h := range d.hosts {
		if p >= h.Device && p+8 <= h.Device+cuda.Ptr(len(h.Bytes)) {
			binary.LittleEndian.PutUint64(h.Bytes[p-h.Device:], v)
			return nil
		}
	}
	return cuda.NewDriverError("store", cuda.CodeIllegalAddress)
}

func (d *fakeDriver) hostRead32(p cuda.Ptr) uint32 {
	for _, h := range d.hosts {
		if p >= h.Device && p+4 <= h.Device+cuda.Ptr(len(h.Bytes)) {
			return binary.LittleEndian.Uint32(h.Bytes[p-h.Device:])
		}
	}
	return 0
}

// launch converts a kernel launch to work. Kernels whose effects are observed by the host are simulated.
// All others only take time.
func (d *fakeDriver) launch(k cuda.Launch) fakeWork {
	name := d.names[k.Func]
	switch name {
	case "aicplan_gate":
		return fakeWork{Name: name, Do: func(d *fakeDriver) *cuda.DriverError { return d.gate(k) }}
	case "aicplan_stamp":
		return fakeWork{Name: name, Seconds: 2e-6, Do: func(d *fakeDriver) *cuda.DriverError {
			out := k.Args[0].(cuda.Ptr)
			for i, v := range []uint64{uint64(d.cycles), uint64(d.Clock.Now()), 1} {
				if err := d.hostWord(out+cuda.Ptr(8*i), v); err != nil {
					return err
				}
			}
			return nil
		}}
	}

	if d.Launches != nil {
		if w := d.Launches(name, k); w.Name != "" {
			return w
		}
	}

	return fakeWork{Name: name, Seconds: 3e-6, Watts: 100}
}

// gate spins for its minimum time if its flag is open, else for its limit, because the flag cannot change
// during virtual time.
func (d *fakeDriver) gate(k cuda.Launch) *cuda.DriverError {
	flag, want := k.Args[0].(cuda.Ptr), k.Args[1].(uint32)
	least, limit, out := k.Args[2].(uint64), k.Args[3].(uint64), k.Args[4].(cuda.Ptr)
	spin, late := time.Duration(least), uint64(0)
	if int32(d.hostRead32(flag)-want) < 0 {
		spin, late = time.Duration(limit), 1
	}

	before, begin := d.cycles, d.Clock.Now()
	d.Clock.Advance(spin)
	d.tick()

	for i, v := range []uint64{late, uint64(d.cycles - before), uint64(d.Clock.Now() - begin)} {
		if err := d.hostWord(out+cuda.Ptr(8*i), v); err != nil {
			return err
		}
	}

	return nil
}
