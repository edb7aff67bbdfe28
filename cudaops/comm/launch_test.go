package comm

import "testing"

// TestWhatALauncherLeaves checks that the launcher's exit error is reported even if its children keep its
// output open.
func TestWhatALauncherLeaves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := &gang{argv: []string{"sh", "-c", "while test -d " + dir + "; do sleep 0.05; done & echo no nodes >&2"}, verb: RankVerb, say: t.Output()}
	l, err := g.launch(nil)
	if err != nil {
		t.Fatal(err)
	}
	<-l.done
	if exitText(l.err) != "exit status 0" || l.said() != ": no nodes" {
		t.Errorf("%s%s", exitText(l.err), l.said())
	}
}
