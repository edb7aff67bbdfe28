package collect

import (
	"cmp"
	"strings"
	"sync"
	"sync/atomic"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// keeper writes the results of units to the journal and counts them once they are on disk.
type keeper struct {
	*running
	similar map[string]int // failures that were shown
	pending sync.WaitGroup
	broken  atomic.Bool // something could not be stored
	kept    atomic.Bool // a unit has been stored in this run

	mu    sync.Mutex
	first error // of storing
	prog  stage.Progress
	now   int // measured units stored in this run
}

// newKeeper returns a keeper whose progress includes the units that are finished already.
func newKeeper(r *running) *keeper {
	n := r.job.tally()
	k := &keeper{running: r, similar: map[string]int{}, prog: stage.Progress{Done: n.Measured, Failed: n.Failed,
		Skipped: n.Skipped - n.excluded, Total: n.Planned - n.excluded}}
	k.prog.Before = k.prog.Done + k.prog.Failed + k.prog.Skipped
	r.rc.Events.Progress(r.rc.Address, k.prog)
	return k
}

// settle stores the result of a unit. It returns immediately and counts the entry when it is durable.
func (k *keeper) settle(unit int, e *rows.Entry) {
	kind := e.Kind()
	if k.job.units[unit].state = measured; kind == checkpoint.Failed {
		k.job.units[unit].state = failed
	}
	payload, err := e.Encode()
	if err != nil {
		panic("collect: an entry cannot be encoded: " + err.Error()) // cannot happen: rows were decoded from JSON
	}

	k.pending.Add(1)
	done := func(err error) {
		k.stored(kind, err)
		k.pending.Done()
	}
	if err := k.journal.AppendFunc(checkpoint.Entry{ID: k.job.id(unit), Kind: kind, Payload: payload}, done); err != nil {
		done(err)
	}
}

// lost records that something could not be stored. The run stops.
func (k *keeper) lost(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.first = cmp.Or(k.first, err)
	k.broken.Store(true)
}

// stored counts one acknowledged entry, or records the error.
func (k *keeper) stored(kind checkpoint.Kind, err error) {
	if err != nil {
		k.lost(err)
		return
	}

	k.mu.Lock()
	if kind == checkpoint.Measured {
		k.prog.Done++
		k.now++
	} else {
		k.prog.Failed++
	}
	prog := k.prog
	k.mu.Unlock()

	k.kept.Store(true)
	k.rc.Events.Progress(k.rc.Address, prog)
}

// wait waits until all entries are acknowledged. It returns the number of units measured in this run and
// the first error.
func (k *keeper) wait() (int, error) {
	k.pending.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now, k.first
}

// maxShown is the number of similar failures that are shown. Further ones are only in the event file.
const maxShown = 3

// failed reports a failed case.
func (k *keeper) failed(c worker.Case, class string, f *worker.Failure) {
	k.rc.Events.Emit(k.rc.Address, "case_failed", map[string]any{
		"case_id": c.ID, "op": c.Op, "params": c.Params, "class": class, "exception": f.Exception,
		"message": f.Message, "attempts": c.Attempt,
	})

	line := firstLine(f.Message)
	key := class + "\x00" + f.Exception + "\x00" + digits.ReplaceAllString(line, "#")
	if f.Exception == "KeyError" {
		line = "KeyError: " + line // its message is only the key
	}
	if k.similar[key]++; k.similar[key] <= maxShown {
		k.message("warn", "%s: %s %s", class, line, c.Params)
	}
}

// firstLine returns the first line of a text, shortened for a message.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	const most = 300
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "..."
	}
	return line
}
