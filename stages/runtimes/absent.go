package runtimes

import (
	"context"
	"errors"

	"aicplan/engine/stage"
)

// Absent says why rt cannot work here while another runtime of the plan can:
// the stages of rt then wait for another container, and the plan goes on there
// with the same state folder. It is nil where rt is here as far as that can be
// told without starting it, and where no runtime is: a plan that is looked at
// on a laptop.
func (p *Pools) Absent(ctx context.Context, rt *stage.Runtime) *Missing {
	p.mu.Lock()
	var others []*stage.Runtime
	for address, u := range p.used {
		if address != rt.Address {
			others = append(others, u.runtime)
		}
	}
	p.mu.Unlock()
	if len(others) == 0 {
		return nil
	}
	why := p.Lacking(ctx, rt)
	if why == nil {
		return nil
	}
	for _, o := range others {
		if p.Lacking(ctx, o) == nil {
			return why
		}
	}
	return nil
}

// Lacking is what rt misses on this machine, as far as that can be told without
// starting a worker, or nil. A checkout that was not given is no matter of the
// place.
func (p *Pools) Lacking(ctx context.Context, rt *stage.Runtime) *Missing {
	_, err := p.look(ctx, rt)
	if m, ok := errors.AsType[*Missing](err); ok {
		return m
	}
	return nil
}
