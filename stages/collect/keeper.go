package collect

import (
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
	job     *job
	journal *checkpoint.Journal
	events  stage.Events
	address string
	shown   map[string]int // similar failures
	pending sync.WaitGroup
	broken  atomic.Bool // something could not be stored

	mu    sync.Mutex
	first error // of storing
	prog  stage.Progress
	now   int // measured units stored in this run
	kept  int // all units stored in this run
}

// newKeeper returns a keeper whose progress includes the units that are finished already.
func newKeeper(j *job, journal *checkpoint.Journal, events stage.Events, address string) *keeper {
	k := &keeper{job: j, journal: journal, events: events, address: address, shown: map[string]int{}}
	n, out := j.tally(), 0 // units that the options exclude are no progress
	for i := range j.units {
		if j.units[i].is(notSelected) {
			out++
		}
	}
	k.prog = stage.Progress{Done: n.Measured, Failed: n.Failed, Skipped: n.Skipped - out, Total: n.Planned - out}
	k.prog.Before = k.prog.Done + k.prog.Failed + k.prog.Skipped
	events.Progress(address, k.prog)
	return k
}

// settle stores the results of units. It returns immediately and counts the entries when they are durable.
func (k *keeper) settle(units []int, entries []*rows.Entry) {
	for i, u := range units {
		kind := entries[i].Kind()
		payload, err := entries[i].Encode()
		if err != nil {
			panic("collect: an entry cannot be encoded: " + err.Error()) // cannot happen: rows were decoded from JSON
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

// stored counts one acknowledged entry, or records the error.
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

// any reports whether an entry has been stored.
func (k *keeper) any() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept > 0
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
	k.events.Emit(k.address, "case_failed", map[string]any{
		"case_id": c.ID, "op": c.Op, "params": c.Params, "class": class, "exception": f.Exception,
		"message": f.Message, "attempts": c.Attempt,
	})

	line := firstLine(f.Message)
	key := class + "\x00" + f.Exception + "\x00" + digits.ReplaceAllString(line, "#")
	if k.shown[key]++; k.shown[key] <= maxShown {
		k.note("warn", class+": "+line+" "+string(c.Params))
	}
}

// note shows a line to the user.
func (k *keeper) note(level, text string) { k.events.Message(k.address, level, text) }

// firstLine returns the first line of a text, shortened for a message.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	const most = 300
	if len(line) > most {
		line = line[:most] + "..."
	}
	return line
}
