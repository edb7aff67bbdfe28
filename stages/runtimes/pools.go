package runtimes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// Pools holds the worker pools of a run, one for each runtime, so that a
// framework is started once and not once for every stage. It is safe for
// concurrent use; Close ends all workers.
type Pools struct {
	// Kinds are the kinds of runtimes that there are.
	Kinds []Kind
	// Devices lists the GPUs.
	Devices func() ([]Device, error)
	// Driver is the version of the kernel driver, "" where there is none.
	Driver func() string
	// Clean is PoolSpec.CleanDevice of the pools with one worker a device.
	Clean func(ctx context.Context, s worker.Slot) error
	// Grace is PoolSpec.ShutdownGrace of all pools.
	Grace time.Duration
	// Locks keeps other runs off the devices; nil locks nothing.
	Locks *Locks

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	pools    map[string]*worker.Pool
	runtimes map[string]*stage.Runtime   // of the pools
	versions map[string]func() installed // by interpreter and package
	used     map[string]*use             // by the plan, by address
	met      map[string]*Environment     // by runtimes; see Met
	reaped   bool
}

// NewPools makes an empty set for runtimes of the kinds.
func NewPools(kinds []Kind) *Pools {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pools{
		Kinds: kinds, Devices: Devices, Driver: Driver, Clean: CleanGPU(nvml.Open), ctx: ctx, cancel: cancel,
		pools: map[string]*worker.Pool{}, runtimes: map[string]*stage.Runtime{}, versions: map[string]func() installed{}, met: map[string]*Environment{},
	}
}

// Get returns the pool of a runtime and makes it when there is none yet.
// Nothing is started; workers that are in the way of its own are ended. The error
// says why this machine cannot have workers of the runtime.
func (p *Pools) Get(ctx context.Context, rt *stage.Runtime, at Place) (*worker.Pool, error) {
	p.makeRoom(rt)
	pool, slots, err := p.found(rt, at)
	if err != nil || pool != nil {
		return pool, err
	}
	if p.Locks != nil {
		// Stages that need no device do not wait behind one that does.
		if err := p.Locks.take(ctx, rt, p.devicesOf(rt, slots), at); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool := p.pools[rt.Address]; pool != nil {
		return pool, nil
	}
	if !p.reaped {
		// Workers of an engine that was killed would disturb every measurement.
		if n := worker.ReapOrphans(); n > 0 {
			at.say(fmt.Sprintf("a killed run had left behind processes, and they were ended: %d", n))
		}
		p.reaped = true
	}
	spec := worker.PoolSpec{Slots: slots, ShutdownGrace: p.Grace}
	if rt.Workers <= 1 {
		// Where several workers share a device, one never has it for itself.
		spec.CleanDevice = p.Clean
	}
	if k := p.Kind(rt.Kind); k != nil && k.Grace != nil {
		spec.ShutdownGrace = k.Grace(rt)
	}
	spec.RecycleAfter, spec.MaxGrowth = p.recycling(rt)
	pool = worker.NewPool(p.ctx, spec)
	p.pools[rt.Address] = pool
	p.runtimes[rt.Address] = rt
	return pool, nil
}

// found is the pool of a runtime, or the places for its workers where it has none yet.
func (p *Pools) found(rt *stage.Runtime, at Place) (*worker.Pool, []worker.Slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool := p.pools[rt.Address]; pool != nil {
		return pool, nil, nil
	}
	slots, err := p.slots(rt, at)
	return nil, slots, err
}

// makeRoom ends the warm workers of other runtimes whose memory rt's workers need,
// or which need the memory that rt's are about to use. One stage at a time is on the
// GPUs, so none of them is at work.
func (p *Pools) makeRoom(rt *stage.Runtime) {
	if !p.onGPUs(rt) {
		return
	}
	var ended []*worker.Pool
	p.mu.Lock()
	for address, other := range p.runtimes {
		if address != rt.Address && p.onGPUs(other) && (p.fills(rt) || p.fills(other)) {
			ended = append(ended, p.pools[address])
			delete(p.pools, address)
			delete(p.runtimes, address)
		}
	}
	p.mu.Unlock()
	for _, pool := range ended {
		pool.Close()
	}
}

func (p *Pools) onGPUs(rt *stage.Runtime) bool {
	k := p.Kind(rt.Kind)
	return k != nil && k.OnGPUs != nil && k.OnGPUs(rt)
}

// fills says whether workers of rt take what memory their GPUs have.
func (p *Pools) fills(rt *stage.Runtime) bool {
	if k := p.Kind(rt.Kind); k != nil && k.Released {
		return true
	}
	v, ok := rt.Options["fills_memory"]
	return ok && v.RawEquals(cty.True)
}

// Release ends the workers of a runtime whose kind says so; others stay warm.
func (p *Pools) Release(rt *stage.Runtime) {
	if k := p.Kind(rt.Kind); k == nil || !k.Released {
		return
	}
	p.mu.Lock()
	pool := p.pools[rt.Address]
	delete(p.pools, rt.Address)
	delete(p.runtimes, rt.Address)
	p.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
}

// recycling returns the number of cases (the option recycle_after) and the growth
// in bytes after which a worker is replaced. Zero means never.
func (p *Pools) recycling(rt *stage.Runtime) (after int, growth int64) {
	if k := p.Kind(rt.Kind); k != nil {
		growth = k.MaxGrowth
	}
	return int(max(0, numberOption(rt, "recycle_after", 0))), growth
}

// Close ends the workers of all pools, politely and side by side.
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
	clear(p.runtimes)
	if p.Locks != nil {
		return p.Locks.release()
	}
	return nil
}
