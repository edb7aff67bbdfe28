package checkpoint

import "testing"

// TestForgetSeesWhatOthersAdded: a plan is made while another process still appends.
func TestForgetSeesWhatOthersAdded(t *testing.T) {
	mine := newStore(t)
	appendOK(t, journal(t, mine), entry("a", Measured, "1"))
	other := open(t, mine.Dir, Options{})
	appendOK(t, journal(t, other), entry("b", Measured, "2"))
	if _, ok := journal(t, mine).Has("b"); ok {
		t.Fatal("the journal is read anew by itself; then Forget is for nothing")
	}
	mine.Forget()
	j := journal(t, mine)
	for _, id := range []string{"a", "b"} {
		if _, ok := j.Has(id); !ok {
			t.Errorf("%s is not there", id)
		}
	}
	appendOK(t, j, entry("c", Measured, "3"))
	if got := contents(t, j); len(got) != 3 {
		t.Errorf("contents %q", got)
	}
}
