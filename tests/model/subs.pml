/* Subscribing (S1, S2, S5 to S8, G1, G2): two workers, two channels, one session; LISTENs in batches that commit or fail
   as one, UNLISTENs in batches of their own, the session lost between any two steps. It follows common/listen_plan.cpp
   and daemon/core/hub.cpp. Results are handed out before notifications that were read in the same pass.

   Claim: once (worker, channel) is acked, each event committed afterwards is delivered, or a gap comes after it; and
   when all is at rest each sub has had one answer and no gap is owed.

   NEV events, LOSS losses of the session, SUBS subs, FAILS batches that fail
   MUTANT, which must fail:
   1  ack on the first CommandComplete, before the batch has committed
   2  an acked subscription owes no gap after a loss
   3  the UNLISTEN goes out although a sub came meanwhile                                                         */
/* The switches come from the environment, so that one compilation serves every run; see `check`. */
hidden byte NEV, LOSS, SUBS, FAILS, MUTANT;
#define EARLY 1
#define NO_OWED_GAP 2
#define UNLISTEN_BLINDLY 3
c_decl {
\#include <stdlib.h>
  static int given(const char *name, int usual) { const char *x = getenv(name); return x ? atoi(x) : usual; }
}
#define NC 2
#define NW 2
#define I(w, c) ((w) * NC + (c))
#define NEVER 255
/* a channel in the plan */
#define NONE 0
#define WAITING 1
#define LISTENING 2     /* its LISTEN is in flight */
#define ACTIVE 3
#define LEAVING 4       /* its UNLISTEN is */
/* the batch in flight */
#define IDLE 0
#define LISTEN_SENT 1
#define LISTEN_DONE 2
#define UNLISTEN_SENT 3
#define UNLISTEN_DONE 4
#define REFUSED 5

byte ll; byte log[8];                 /* the channel of each committed event */
bool live; byte pos;                  /* the session, and the next event it reads */
byte lfrom[NC];                       /* the server's: LISTEN was committed here */
byte st[NC]; bool wanted[NC]; byte fl;
bool sub[NW*NC], acked[NW*NC], owes[NW*NC]; byte pend[NW*NC];
/* the observer: events that are due (bit i of the log), subs and their answers */
byte need[NW*NC]; byte nsub[NW*NC], answers[NW*NC];
byte subs, loss, nev, fails;
hidden byte c_, w_, i_, e_, any_;                /* scratch, within one step */

inline do_ack(w, c) {
  answers[I(w,c)] = answers[I(w,c)] + pend[I(w,c)]; pend[I(w,c)] = 0;
  if :: sub[I(w,c)] && !acked[I(w,c)] -> acked[I(w,c)] = 1; need[I(w,c)] = 0 :: else fi }
inline activate(c) {
  w_ = 0; do :: w_ < NW ->
     if :: pend[I(w_,c)] > 0 -> do_ack(w_, c) :: else fi;
     if :: owes[I(w_,c)] && sub[I(w_,c)] -> owes[I(w_,c)] = 0; need[I(w_,c)] = 0 /* the gap */ :: else fi;
     w_++ :: else -> break od }
inline recount(c) {
  any_ = 0; w_ = 0; do :: w_ < NW -> any_ = any_ || sub[I(w_,c)] || pend[I(w_,c)] > 0; w_++ :: else -> break od;
  wanted[c] = any_;
  if :: !any_ && st[c] == WAITING -> st[c] = NONE :: any_ && st[c] == NONE -> st[c] = WAITING :: else fi }
inline unsub(w, c) {
  sub[I(w,c)] = 0; acked[I(w,c)] = 0; owes[I(w,c)] = 0; need[I(w,c)] = 0; c_ = c; recount(c) }
inline subscribe(w, c) {
  subs++; nsub[I(w,c)]++; sub[I(w,c)] = 1; pend[I(w,c)]++; wanted[c] = 1;
  if :: live && st[c] == ACTIVE -> do_ack(w, c)
     :: !(live && st[c] == ACTIVE) && st[c] == NONE -> st[c] = WAITING
     :: else fi }
inline commit(c) {
  nev++; log[ll] = c;
  w_ = 0; do :: w_ < NW -> if :: acked[I(w_,c)] -> need[I(w_,c)] = need[I(w_,c)] | (1 << ll) :: else fi; w_++
             :: else -> break od;
  ll++ }

init {
  c_code {
    NEV = given("NEV", 3); LOSS = given("LOSS", 1); SUBS = given("SUBS", 3); FAILS = given("FAILS", 1);
    MUTANT = given("MUTANT", 0);
  };
  live = 1; c_ = 0; do :: c_ < NC -> lfrom[c_] = NEVER; c_++ :: else -> break od; c_ = 0;
  do
  /* ---- workers */
  :: d_step { subs < SUBS -> subscribe(0, 0); skip }
  :: d_step { subs < SUBS -> subscribe(0, 1); skip }
  :: d_step { subs < SUBS -> subscribe(1, 0); skip }
  :: d_step { subs < SUBS -> subscribe(1, 1); skip }
  :: d_step { sub[I(0,0)] -> unsub(0, 0); skip }
  :: d_step { sub[I(0,1)] -> unsub(0, 1); skip }
  :: d_step { sub[I(1,0)] -> unsub(1, 0); skip }
  :: d_step { sub[I(1,1)] -> unsub(1, 1); skip }
  /* ---- the plan */
  :: d_step { live && fl == IDLE && ((st[0] == WAITING && wanted[0]) || (st[1] == WAITING && wanted[1])) ->
       c_ = 0; do :: c_ < NC -> if :: st[c_] == WAITING && wanted[c_] -> st[c_] = LISTENING :: else fi; c_++
                  :: else -> break od;
       fl = LISTEN_SENT }
#define UNWANTED(c) (!wanted[c] || MUTANT == UNLISTEN_BLINDLY)
  :: d_step { live && fl == IDLE && st[0] == ACTIVE && UNWANTED(0) -> st[0] = LEAVING; fl = UNLISTEN_SENT }
  :: d_step { live && fl == IDLE && st[1] == ACTIVE && UNWANTED(1) -> st[1] = LEAVING; fl = UNLISTEN_SENT }
  /* ---- the server: a batch commits as one, or fails as one */
  :: d_step { live && fl == LISTEN_SENT ->
       c_ = 0; do :: c_ < NC -> if :: st[c_] == LISTENING && lfrom[c_] == NEVER -> lfrom[c_] = ll :: else fi; c_++
                  :: else -> break od;
       fl = LISTEN_DONE }
  :: d_step { live && fl == LISTEN_SENT && fails < FAILS -> fails++; fl = REFUSED }
  :: d_step { live && fl == UNLISTEN_SENT ->
       c_ = 0; do :: c_ < NC -> if :: st[c_] == LEAVING -> lfrom[c_] = NEVER :: else fi; c_++ :: else -> break od;
       fl = UNLISTEN_DONE }
  :: d_step { nev < NEV -> commit(0); skip }
  :: d_step { nev < NEV -> commit(1); skip }
  /* ---- the hub reads */
  :: d_step { live && fl == LISTEN_DONE -> fl = IDLE;
       c_ = 0; do :: c_ < NC -> if :: st[c_] == LISTENING -> st[c_] = ACTIVE; activate(c_); recount(c_) :: else fi; c_++
                  :: else -> break od; skip }
  :: d_step { MUTANT == EARLY && live && fl == LISTEN_SENT ->
       c_ = 0; do :: c_ < NC -> if :: st[c_] == LISTENING -> activate(c_) :: else fi; c_++ :: else -> break od; skip }
  :: d_step { live && fl == REFUSED -> fl = IDLE;
       c_ = 0; do :: c_ < NC -> if :: st[c_] == LISTENING -> st[c_] = (wanted[c_] -> WAITING : NONE) :: else fi; c_++
                  :: else -> break od; skip }
  :: d_step { live && fl == UNLISTEN_DONE -> fl = IDLE;
       c_ = 0; do :: c_ < NC -> if :: st[c_] == LEAVING -> st[c_] = (wanted[c_] -> WAITING : NONE) :: else fi; c_++
                  :: else -> break od; skip }
  :: d_step { live && pos < ll -> c_ = log[pos];
       if :: lfrom[c_] != NEVER && pos >= lfrom[c_] ->
            w_ = 0; do :: w_ < NW -> if :: sub[I(w_,c_)] -> need[I(w_,c_)] = need[I(w_,c_)] & (255 - (1 << pos)) :: else fi;
                            w_++ :: else -> break od
          :: else fi;
       pos++ }
  /* ---- the session is lost, and there is another */
  :: d_step { live && loss < LOSS -> loss++; live = 0; fl = IDLE;
       c_ = 0; do :: c_ < NC -> lfrom[c_] = NEVER; st[c_] = (wanted[c_] -> WAITING : NONE);
            w_ = 0; do :: w_ < NW ->
              if :: acked[I(w_,c_)] && MUTANT != NO_OWED_GAP -> owes[I(w_,c_)] = 1 :: else fi;
              w_++ :: else -> break od;
            c_++ :: else -> break od; skip }
  :: d_step { !live -> live = 1; pos = ll }
  /* ---- nothing is under way */
  :: d_step { live && fl == IDLE && pos == ll && nev == NEV ->
       any_ = 1; c_ = 0; do :: c_ < NC -> if :: st[c_] == WAITING && wanted[c_] -> any_ = 0 :: else fi; c_++
                           :: else -> break od;
       if :: any_ -> i_ = 0; do :: i_ < NW*NC ->
                assert(need[i_] == 0); assert(pend[i_] == 0 && !owes[i_]); assert(answers[i_] == nsub[i_]); i_++
                :: else -> break od; i_ = 0
          :: else fi; skip }
  od
}
