package collect

import (
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// An interrupted replacement continues: only results of its epoch count, with and without --replace. A
// retry tries every failed case once.
func TestEpochs(t *testing.T) {
	t.Parallel()
	b := newBench(t, products)
	c, p := b.prepare("")
	cases := p.Private.(*Measurement).Cases
	env, _ := c.pools.Expect(t.Context(), b.store, c.runtime)
	if env == nil {
		t.Fatal("the cpu runtime does not tell what it is")
	}
	journal, _, err := c.journal(b.store, cases.Spec, env)
	if err != nil {
		t.Fatal(err)
	}
	put := func(i int, k checkpoint.Kind) {
		t.Helper()
		payload := `{"rows": [{"latency": 1}], "attempts": 1}`
		if k == checkpoint.Failed {
			payload = `{"failure": {"class": "transient", "message": "x"}, "attempts": 1}`
		}
		if err := journal.Append(checkpoint.Entry{ID: cases.ID(i), Kind: k, Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	// states returns what a run with opts would reuse and withdraw.
	states := func(opts stage.Options, withdraw bool) string {
		t.Helper()
		j, err := newJob(cases, rows.SchemaOf(nil, "", true), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.reuse(journal, opts, 0); err != nil {
			t.Fatal(err)
		}
		text := ""
		for i := range j.units {
			text += string("omfs"[j.units[i].state])
		}
		if withdraw {
			if err := j.withdraw(journal, opts); err != nil {
				t.Fatal(err)
			}
		}
		return text
	}
	check := func(what string, opts stage.Options, want string, withdraw bool) {
		t.Helper()
		if got := states(opts, withdraw); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	put(0, checkpoint.Measured)
	put(1, checkpoint.Measured)
	put(2, checkpoint.Failed)
	plain, again := stage.Options{}, stage.Options{Again: true, Epoch: "replace-1"}
	check("before", plain, "mmfo", false)
	check("a plan of a replacement", stage.Options{Again: true}, "oooo", false)
	check("a replacement", again, "oooo", true)
	check("killed before the first row", plain, "oooo", false)
	put(0, checkpoint.Measured)
	put(3, checkpoint.Failed)
	check("killed halfway", plain, "moof", false)
	check("the same command", again, "moof", true)
	check("another one", stage.Options{Again: true, Epoch: "replace-2"}, "oooo", false)
	put(1, checkpoint.Failed)
	put(2, checkpoint.Measured)
	check("ended", plain, "mfmf", false)

	retry := stage.Options{Retry: "failed"}
	check("a retry", retry, "momo", true)
	put(3, checkpoint.Failed)
	check("killed halfway", plain, "momf", false)
	check("the same retry", retry, "momf", true)
	put(1, checkpoint.Failed)
	check("the next retry", retry, "momo", false)

	full := []byte(`{"failure": {"class": "", "message": "[Errno 28] No space left on device"}, "attempts": 1}`)
	if err := journal.Append(checkpoint.Entry{ID: cases.ID(1), Kind: checkpoint.Failed, Payload: full}); err != nil {
		t.Fatal(err)
	}
	check("a full disk", plain, "momf", true)
	if _, ok := journal.Has(cases.ID(1)); ok {
		t.Error("the failure of a full disk still counts while its case is tried again")
	}
	put(1, checkpoint.Failed)
	check("another failure", plain, "mfmf", false)
}
