package runtimes

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/proc"
)

// Pools contains the worker pools of a run, one for each runtime, so that a framework is started once
// and not for every stage. It is safe for concurrent use. Close ends all workers.
type Pools struct {
	// Kinds are the known kinds of runtimes.
	Kinds []*Kind
	// Devices returns the GPUs of this machine.
	Devices func() ([]Device, error)
	// Driver returns the version of the kernel driver, or "" without one.
	Driver func() string
	// Clean is PoolSpec.CleanDevice of pools with one worker per device.
	Clean func(ctx context.Context, s worker.Slot) error
	// Grace is PoolSpec.ShutdownGrace of all pools.
	Grace time.Duration
	// Locks keeps other runs off the devices. Nil disables locking.
	Locks *Locks

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	pools    map[string]pooled           // by runtime address
	versions map[string]func() Installed // by interpreter and packages
	failures map[string]func() Installed // the last answer by interpreter
	used     map[string]*use             // by the plan; keyed by address
	met      map[string]*Environment     // by runtime address; see Met
	reaped   bool
}

// pooled is a pool with its runtime.
type pooled struct {
	*worker.Pool
	runtime *stage.Runtime
}

// NewPools returns empty pools for runtimes of the kinds.
func NewPools(kinds []*Kind) *Pools {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pools{
		Kinds: kinds, Devices: Devices, Driver: Driver, Clean: CleanGPU(nvml.Open), ctx: ctx, cancel: cancel,
		pools: map[string]pooled{}, versions: map[string]func() Installed{}, failures: map[string]func() Installed{},
		used: map[string]*use{}, met: map[string]*Environment{},
	}
}

// Get returns the pool of a runtime and creates it if necessary. It locks the runtime's devices and ends
// workers of other runtimes whose memory is needed, but starts no worker. The error explains why this
// machine cannot run the runtime.
func (p *Pools) Get(ctx context.Context, rt *stage.Runtime, at Place) (*worker.Pool, error) {
	p.makeRoom(rt)
	if known := p.pool(rt); known != nil {
		return known, nil
	}

	slots, err := p.slots(rt, at)
	if err != nil {
		return nil, err
	}

	if p.Locks != nil {
		// Lock outside p.mu, so that stages without a device do not wait.
		if err := p.Locks.take(ctx, rt, p.devicesOf(rt, slots), at); err != nil {
			return nil, err
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.pools[rt.Address].Pool; known != nil {
		return known, nil
	}

	if !p.reaped {
		// Orphaned workers of a killed engine would disturb every measurement.
		if n := proc.KillOrphans(); n > 0 {
			at.say("a killed run had left behind processes, and they were ended: %d", n)
		}
		p.reaped = true
	}

	spec := worker.PoolSpec{Slots: slots, ShutdownGrace: p.Grace}
	if rt.Workers <= 1 {
		// A worker that shares its device never has it alone.
		spec.CleanDevice = p.Clean
	}

	if grace := p.Kind(rt.Kind).Grace; grace != nil {
		spec.ShutdownGrace = grace(rt)
	}

	spec.RecycleAfter, spec.MaxGrowth = p.recycling(rt)
	pool := worker.NewPool(p.ctx, spec)
	p.pools[rt.Address] = pooled{pool, rt}
	return pool, nil
}

// pool returns the pool of a runtime, or nil.
func (p *Pools) pool(rt *stage.Runtime) *worker.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pools[rt.Address].Pool
}

// makeRoom ends the warm workers of other runtimes on the GPUs if they or rt use all memory. Only one
// stage at a time uses the GPUs, so none of these workers is busy.
func (p *Pools) makeRoom(rt *stage.Runtime) {
	if !p.Kind(rt.Kind).OnGPUs(rt) {
		return
	}

	p.end(func(other *stage.Runtime) bool {
		return other.Address != rt.Address && p.Kind(other.Kind).OnGPUs(other) && (p.fills(rt) || p.fills(other))
	})
}

// end ends the workers of some runtimes.
func (p *Pools) end(which func(*stage.Runtime) bool) {
	var ended []*worker.Pool
	p.mu.Lock()
	for address, known := range p.pools {
		if which(known.runtime) {
			ended = append(ended, known.Pool)
			delete(p.pools, address)
		}
	}
	p.mu.Unlock()

	for _, pool := range ended {
		pool.Close()
	}
}

// fills reports whether workers of rt use all memory of their GPUs.
func (p *Pools) fills(rt *stage.Runtime) bool {
	return p.Kind(rt.Kind).Released || flagAt(rt.Options["fills_memory"])
}

// Release ends the workers of a runtime if its kind has Released set. Otherwise they stay warm.
func (p *Pools) Release(rt *stage.Runtime) {
	if p.Kind(rt.Kind).Released {
		p.end(func(other *stage.Runtime) bool { return other.Address == rt.Address })
	}
}

// recycling returns the number of cases (option recycle_after) and the growth in bytes after which a
// worker is replaced. Zero means never.
func (p *Pools) recycling(rt *stage.Runtime) (after int, growth int64) {
	n, _ := at(rt.Options["recycle_after"]).(json.Number)
	cases, _ := n.Int64() // 0 if it is not set
	return int(max(0, cases)), p.Kind(rt.Kind).MaxGrowth
}

// Close ends the workers of all pools concurrently and releases the device locks.
func (p *Pools) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wg sync.WaitGroup
	for _, pool := range p.pools {
		wg.Go(pool.Close)
	}

	wg.Wait()
	p.cancel()
	clear(p.pools)
	if p.Locks != nil {
		return p.Locks.release()
	}

	return nil
}
