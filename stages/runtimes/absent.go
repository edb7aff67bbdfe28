package runtimes

import (
	"context"
	"errors"

	"aicplan/engine/stage"
)

// Absent returns why rt cannot run here if another runtime of the plan can. The stages of rt then wait
// for another container, and the plan continues there with the same state folder. Absent returns nil if
// rt is available as far as that is known without starting it. It also returns nil if no runtime is
// available, for example when a plan is made on a laptop.
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

// Lacking returns what rt lacks on this machine, or nil, without starting a worker. Missing collectors
// are not included; see Checkout.
func (p *Pools) Lacking(ctx context.Context, rt *stage.Runtime) *Missing {
	_, err := p.look(ctx, rt)
	if m, ok := errors.AsType[*Missing](err); ok {
		return m
	}
	return nil
}
