package collect

import (
	"strings"
	"sync"
	"sync/atomic"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// keeper stores what becomes of units and counts it once it is on disk. It is
// the policy's recorder.
type keeper struct {
	job     *job
	journal *checkpoint.Journal
	events  stage.Events
	address string
	pending sync.WaitGroup
	broken  atomic.Bool // something could not be stored

	mu    sync.Mutex
	first error // of storing
	prog  stage.Progress
	now   int // units stored in this run as measured
	kept  int // units stored in this run
}

// newKeeper counts what is settled already.
func newKeeper(j *job, journal *checkpoint.Journal, events stage.Events, address string) *keeper {
	k := &keeper{job: j, journal: journal, events: events, address: address}
	n, out := j.tally(), j.leftOut()
	k.prog = stage.Progress{Done: n.Measured, Failed: n.Failed, Skipped: n.Skipped - out, Total: n.Planned - out}
	k.prog.Before = k.prog.Done + k.prog.Failed + k.prog.Skipped
	events.Progress(address, k.prog)
	return k
}

// settle implements recorder: it returns at once, and counts when the entries are
// durable.
func (k *keeper) settle(units []int, entries []*entry) {
	for i, u := range units {
		e := entries[i]
		k.job.hold(u, e)
		kind := checkpoint.Measured
		if e.Failure != nil {
			kind = checkpoint.Failed
		}
		payload, err := e.encode()
		if err != nil {
			panic("collect: an entry cannot be encoded: " + err.Error()) // rows came from JSON
		}
		k.pending.Add(1)
		err = k.journal.AppendFunc(checkpoint.Entry{ID: k.job.id(u), Kind: kind, Payload: payload}, func(err error) {
			k.stored(kind, err)
			k.pending.Done()
		})
		if err != nil {
			k.stored(kind, err)
			k.pending.Done()
		}
	}
}

// stored takes the acknowledgement of one entry.
func (k *keeper) stored(kind checkpoint.Kind, err error) {
	k.mu.Lock()
	if err != nil {
		if k.first == nil {
			k.first = err
		}
		k.mu.Unlock()
		k.broken.Store(true)
		return
	}
	k.kept++
	if kind == checkpoint.Measured {
		k.prog.Done++
		k.now++
	} else {
		k.prog.Failed++
	}
	prog := k.prog
	k.mu.Unlock()
	k.events.Progress(k.address, prog)
}

// any says whether something has been stored.
func (k *keeper) any() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept > 0
}

// wait returns once everything is acknowledged, with the number of units that
// were measured in this run, or with the first error.
func (k *keeper) wait() (int, error) {
	k.pending.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now, k.first
}

// failed implements recorder.
func (k *keeper) failed(c worker.Case, class string, f *worker.Failure, tell bool) {
	k.events.Emit(k.address, "case_failed", map[string]any{
		"case_id": c.ID, "op": c.Op, "params": c.Params, "class": class, "exception": f.Exception,
		"message": f.Message, "attempts": c.Attempt,
	})
	if tell {
		k.note("warn", class+": "+firstLine(f.Message)+" "+string(c.Params))
	}
}

// note implements recorder.
func (k *keeper) note(level, text string) { k.events.Message(k.address, level, text) }

// firstLine shortens a message for a line of its own.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	const most = 300
	if len(line) > most {
		line = line[:most] + "..."
	}
	return line
}
