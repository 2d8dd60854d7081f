/* Moving between the hub and an own connection by a fence (C5, C6, C7; docs/protocol.md, "Changing sides without a
   gap"): one worker, one channel, ephemeral events 1..NEV in commit order. It follows client/src/core/failover_joining.cpp,
   failover_links.cpp and failover_serving.cpp, daemon/core/hub_routing.cpp (fences, owed gaps) and daemon/core/outbox.cpp (status).

   Claim: the application is handed each event once and in order, or a gap after those that are missing; and in the end
   every event was handed out or lies before a gap.

   START      1: the hub serves, and may drain (C7);  2: the own connection serves, the hub is well (C6)
   HLOSS      how often the hub's session is lost;  OLOSS the own one;  KILL the hub's process;  SAYFAIL a NOTIFY fails
   HO         hand-overs begun
   REPLAY     fences a stranger repeats;  PREDICT those he says before their time
   CAP        fences the hub drops because too many wait
   STRANGE    as on a hub that does not tell who said a fence: the client believes any fence of the right number

   MUTANT, a sum; each in tests/model/CMakeLists.txt must fail:
    1  complete when ONE side has passed the fence     2  held events are dropped
    4  the fence is said before the new side is active  8  a healthy status replaces an unhealthy one
   16  the hub passes a fence on while it owes a gap   32  a gap ahead of the fence breaks nothing
   64  the client does not look at status during a hand-over
   The last four stand in for one another in part: 56 is what was before they were there.                        */
/* The switches come from the environment, so that one compilation serves every run; see `check`. */
hidden byte NEV, START, STRANGE, MUTANT;
#define NO_WAIT 1
#define NO_HOLD 2
#define NO_ACK 4
#define NO_STATUS 8
#define NO_HOLE 16
#define NO_GAP 32
#define DEAF 64
#define HAS(m) ((MUTANT & (m)) != 0)
c_decl {
\#include <stdlib.h>
  static int given(const char *name, int usual) { const char *x = getenv(name); return x ? atoi(x) : usual; }
}
#define LM 14
#define QM 12
#define HM 9
#define NONE 255
/* frames of the hub, and entries of the NOTIFY queue: an event is its number */
#define GAPM 20
#define ACKM 23
#define CLOSEM 24
#define CUTACK 27
#define ST 30            /* status: +1 healthy, +2 draining */
#define FE 40            /* fence number n said by the own session: FE + n */
#define FX 60            /* the same words of a stranger: FX + n */
#define IS_STATUS(x) ((x) >= ST && (x) <= ST + 3)
#define IS_FENCE(x) ((x) > FE)
#define HEALTHY(x) ((x) == ST + 1 || (x) == ST + 3)
#define IS_MINE(x, n) ((x) == FE + (n) || (STRANGE && (x) == FX + (n)))
/* sides */
#define HUB 1
#define OWN 2

byte log[LM]; byte ll; byte nev;                 /* the NOTIFY queue of the database */
byte bH, bO, bK, bHo, bR, bP, bC, bF;            /* budgets */
/* the hub's process and session */
bool hproc, hs, hact, hdrain;                    /* it runs, has a session, the channel is active, it drains */
byte hpos; byte hfrom;                           /* next to read; the channel's LISTEN was committed here */
bool reg, hacked, owes; byte pend;               /* the worker's sub: registered, acked, owes a gap; acks owed */
bool hcut; byte hcutL;                           /* a cut by two subs is asked for; length of the log then */
bool conn, late;                                 /* hub's end of the link; a healthy status is kept back */
byte wq[QM]; byte wl;                            /* outbox and socket, in order */
/* the own session */
byte own; byte opos; byte ofrom; bool oact; bool at_own;   /* own: 0 off, 1 starting, 2 live */
byte say; byte orphan;                           /* its NOTIFY under way; one that a dead session left behind */
/* the client */
byte serving; bool up, told, hl, dr; bool at_hub, hub_act; byte unans;
byte ph, to; bool pO, pN, oldLost; byte fid;     /* 0 no hand-over, 1 joining, 2 fencing; who has passed */
byte hn[HM]; byte hnl; byte ho_[HM]; byte hol;   /* held of the new side, of the old */
bool served, owed, overlap; byte delivered; byte cut_on, cut_id; byte numbers;
bool dec;                                        /* `decide` has to run */
/* the observer */
byte last; byte covered;                         /* the last event handed out; all before a gap */
hidden byte i_, x_, s_, t_;                       /* scratch, within one step */

inline deliver(m) {
  if
  :: m == GAPM -> covered = nev
  :: else -> assert(m > last);                          /* once, in order */
             assert(m == last + 1 || covered >= m - 1); /* nothing missing without a gap */
             last = m
  fi
}
inline hand_out(m, s) {
  if
  :: served -> deliver(m); delivered = s; if :: s == HUB -> overlap = 1 :: else fi
  :: else
  fi
}
inline push(m) {
  if
  :: conn -> assert(wl < QM); wq[wl] = m; wl++
  :: else
  fi
}
inline make_status() { t_ = ST + (hs && (hact || !reg) -> 1 : 0) + (hdrain -> 2 : 0) }
/* At most one waits; a healthy one does not replace an unhealthy one, it follows later. */
inline push_status() {
  if
  :: conn ->
     make_status(); late = 0;
     i_ = wl; do :: i_ > 0 && !IS_STATUS(wq[i_-1]) -> i_-- :: else -> break od;
     if
     :: i_ == 0 -> push(t_)
     :: i_ > 0 && HEALTHY(t_) && !HEALTHY(wq[i_-1]) && !HAS(NO_STATUS) -> late = 1
     :: i_ > 0 && !(HEALTHY(t_) && !HEALTHY(wq[i_-1]) && !HAS(NO_STATUS)) -> wq[i_-1] = t_
     fi
  :: else
  fi
}
inline end_ho() { ph = 0; to = 0; pO = 0; pN = 0; oldLost = 0; fid = 0; hnl = 0; hol = 0 }
inline leave() { serving = 0; cut_on = 0; cut_id = 0; served = 0; owed = 1 }
inline hsub() { at_hub = 1; hub_act = 0; unans++;
  if :: conn -> reg = 1;
        if :: hs && hact -> push(ACKM); hacked = 1 :: else -> pend++ fi
     :: else fi }
inline hunsub() { at_hub = 0; hub_act = 0; if :: conn -> reg = 0; hacked = 0; owes = 0 :: else fi }
inline settle() {
  if
  :: serving != 0 && cut_on != serving && ((serving == HUB && hub_act) || (serving == OWN && oact)) ->
     if :: owed -> covered = nev; owed = 0 :: else fi;
     served = 1
  :: else
  fi
}
inline begin_cut(s) {
  numbers++; cut_on = s;
  if
  :: s == OWN -> cut_id = numbers; say = numbers
  :: else -> cut_id = 0; hcut = 1; hcutL = ll
  fi
}
inline serve(s) {
  serving = s;
  if
  :: s == HUB -> if :: !at_hub -> hsub() :: else fi;
                 if :: delivered == OWN -> begin_cut(HUB) :: else fi
  :: else -> at_own = 1; if :: overlap -> begin_cut(OWN) :: else fi
  fi;
  settle()
}
inline forget_own() { oact = 0; overlap = 0; ofrom = NONE; if :: cut_on == OWN -> cut_on = 0; cut_id = 0 :: else fi;
  if :: say != 0 -> orphan = say; say = 0 :: else fi }
inline stop_own() { own = 0; forget_own(); at_own = 0 }
inline abort_ho() {
  if
  :: ph != 0 ->
     t_ = to;
     i_ = 0; do :: i_ < hol && !HAS(NO_HOLD) -> hand_out(ho_[i_], (t_ == HUB -> OWN : HUB)); i_++ :: else -> break od;
     end_ho();
     if :: t_ == HUB && up && at_hub -> hunsub() :: else fi
  :: else
  fi
}
inline cancel_ho() { end_ho(); leave() }
inline break_ho() { if :: oldLost -> cancel_ho() :: else -> abort_ho() fi }
inline close_link() { up = 0; told = 0; hl = 0; dr = 0; conn = 0; late = 0; wl = 0; reg = 0; pend = 0; hacked = 0; owes = 0; hcut = 0 }
inline side_lost(s) {
  if
  :: ph == 0 -> skip
  :: ph != 0 && s == to -> break_ho()
  :: ph != 0 && s != to && oldLost -> skip
  :: ph != 0 && s != to && !oldLost ->
     if
     :: ph != 2 -> cancel_ho()
     :: ph == 2 && pO -> hol = 0; oldLost = 1
     :: ph == 2 && !pO && !pN -> cancel_ho()
     :: ph == 2 && !pO && pN ->
        t_ = to; x_ = hnl; ph = 0; to = 0; pO = 0; pN = 0; oldLost = 0; fid = 0; hol = 0;
        leave(); delivered = t_; overlap = 0; serve(t_);
        i_ = 0; do :: i_ < x_ && !HAS(NO_HOLD) -> hand_out(hn[i_], t_); i_++ :: else -> break od;
        hnl = 0
     fi
  fi
}
inline hub_gone() { close_link(); at_hub = 0; hub_act = 0; unans = 0;
  if :: cut_on == HUB -> cut_on = 0 :: else fi; side_lost(HUB) }
inline complete() {
  t_ = to; x_ = hnl; ph = 0; to = 0; pO = 0; pN = 0; oldLost = 0; fid = 0; hol = 0;
  serving = t_; delivered = t_;
  served = ((t_ == HUB && hub_act) || (t_ == OWN && oact)) && !owed;
  settle();
  i_ = 0; do :: i_ < x_ && !HAS(NO_HOLD) -> hand_out(hn[i_], t_); i_++ :: else -> break od;
  hnl = 0; delivered = t_; overlap = 0;
  if :: t_ == HUB -> stop_own()
     :: else -> close_link(); at_hub = 0; hub_act = 0; unans = 0; if :: cut_on == HUB -> cut_on = 0 :: else fi
  fi
}
inline passed(s) {
  if :: s == to -> pN = 1 :: else -> pO = 1 fi;
  if :: (pO && pN) || HAS(NO_WAIT) -> complete() :: else fi
}
inline route(m, s) {
  if
  :: ph == 0 -> if :: s == serving && cut_on != s -> hand_out(m, s) :: else fi
  :: ph == 1 -> if :: s != to -> hand_out(m, s) :: else fi
  :: ph == 2 && s == to -> if :: pN -> assert(hnl < HM); hn[hnl] = m; hnl++ :: else fi
  :: ph == 2 && s != to -> if :: pO -> assert(hol < HM); ho_[hol] = m; hol++ :: else -> hand_out(m, s) fi
  fi
}
inline fence_if_joined() {
  if
  :: ph == 1 && ((to == HUB && hub_act) || (to == OWN && oact) || HAS(NO_ACK)) ->
     numbers++; fid = numbers; ph = 2; say = numbers
  :: else
  fi
}
inline begin_ho(s) { end_ho(); ph = 1; to = s; bHo--;
  if :: s == HUB && !at_hub -> hsub() :: else fi; fence_if_joined() }
/* failover::decide: who serves, and whether an own connection is wanted */
inline decide() {
  dec = 0;
  if :: ph != 0 && oldLost -> skip
  :: else ->
    if :: serving == HUB && !up -> leave() :: else fi;
    if :: serving == OWN && own != 2 -> leave() :: else fi;
    if :: serving == HUB && up && told && !hl && own == 2 && !(HAS(DEAF) && ph != 0) ->
          abort_ho(); leave(); hub_gone() :: else fi;
    if :: serving == 0 ->
        if :: own == 2 -> serve(OWN)
           :: own != 2 && up && (own == 0 || (told && hl)) -> serve(HUB)
           :: else fi
       :: else fi
  fi;
  if
  :: ph != 0 || serving == OWN || !up || (up && told && !hl && own != 0) || (up && !told && own != 0) || dr ->
     if :: own == 0 -> own = 1; at_own = 1; overlap = 0 :: else fi
  :: else -> if :: own != 0 -> stop_own() :: else fi
  fi
}
inline take_gap() {
  if
  :: ph == 2 && ((to == HUB && !pN) || (to == OWN && !pO)) && !HAS(NO_GAP) ->
     if :: to == OWN -> hand_out(GAPM, HUB) :: else fi;
     break_ho()
  :: else -> route(GAPM, HUB)
  fi
}
inline take_status() {
  told = 1; hl = HEALTHY(s_); dr = dr || (s_ >= ST + 2);
  if :: ph != 0 && (!hl || (to == HUB && dr)) && !HAS(DEAF) ->
       if :: !oldLost -> abort_ho() :: oldLost && to == HUB -> cancel_ho() :: else fi
     :: else fi
}

inline die() {
  bK--; hproc = 0; hs = 0; hact = 0; hfrom = NONE; hdrain = 0; reg = 0; pend = 0; hacked = 0; owes = 0; hcut = 0;
  late = 0; push(CLOSEM); conn = 0
}

#define QUIET (nev == NEV && ph == 0 && cut_on == 0 && !dec && say == 0 && served && !owed && !late && \
  ((serving == HUB && up && hproc && hs && hact && hpos == ll && wl == 0) || \
   (serving == OWN && own == 2 && oact && opos == ll)))

init {
  c_code {
    NEV = given("NEV", 3); START = given("START", 1); STRANGE = given("STRANGE", 0); MUTANT = given("MUTANT", 0);
    now.bH = given("HLOSS", 1); now.bO = given("OLOSS", 0); now.bK = given("KILL", 0); now.bHo = given("HO", 1);
    now.bR = given("REPLAY", 0); now.bP = given("PREDICT", 0); now.bC = given("CAP", 0); now.bF = given("SAYFAIL", 0);
  };
  hproc = 1; hs = 1; hfrom = 0; hact = 1; conn = 1; up = 1; told = 1; hl = 1; ofrom = NONE; served = 1;
  if
  :: START == 1 -> serving = HUB; reg = 1; hacked = 1; at_hub = 1; hub_act = 1
  :: else -> serving = OWN; own = 2; ofrom = 0; oact = 1; at_own = 1; hact = 0; hfrom = NONE
  fi;
  do
  :: d_step { dec -> decide(); skip }
  /* ---- the database */
  :: d_step { !dec && nev < NEV && ll < LM - 1 -> nev++; log[ll] = nev; ll++ }
  :: d_step { !dec && say != 0 && own == 2 && ll < LM - 1 -> log[ll] = FE + say; ll++; say = 0 }
  :: d_step { !dec && say != 0 && own == 2 && bF > 0 -> bF--; s_ = say; say = 0;    /* own_said(false) */
       if :: ph == 2 && fid == s_ && !oldLost -> abort_ho()
          :: cut_on == OWN && cut_id == s_ -> begin_cut(OWN)
          :: else fi; dec = 1 }
  :: d_step { !dec && orphan != 0 && ll < LM - 1 -> log[ll] = FE + orphan; ll++; orphan = 0 }
  :: d_step { !dec && orphan != 0 -> orphan = 0 }
  /* ---- a stranger with a login of this database */
  :: d_step { !dec && bR > 0 && ll < LM - 1 && fid != 0 ->
       i_ = 0; do :: i_ < ll && log[i_] != FE + fid -> i_++ :: else -> break od;
       if :: i_ < ll -> bR--; log[ll] = FX + fid; ll++ :: else fi; skip }
  :: d_step { !dec && bP > 0 && ll < LM - 1 -> bP--; log[ll] = FX + numbers + 1; ll++ }
  /* ---- the hub */
  :: d_step { !dec && hproc && hs && bH > 0 -> bH--; hs = 0; hact = 0; hfrom = NONE;
       if :: hacked -> owes = 1 :: else fi; push_status(); skip }
  :: d_step { !dec && hproc && !hs -> hs = 1; hpos = ll; hfrom = NONE; if :: !reg -> push_status() :: else fi; skip }
  :: d_step { !dec && hproc && hs && hfrom == NONE && reg -> hfrom = ll }               /* LISTEN commits */
  :: d_step { !dec && hproc && hs && hfrom != NONE && !hact -> hact = 1;                /* its answer is read */
       do :: pend > 0 -> push(ACKM); pend-- ; hacked = reg :: else -> break od;
       if :: reg && owes -> push(GAPM); owes = 0 :: else fi;
       push_status(); skip }
  :: d_step { !dec && hproc && hs && hpos < ll && wl < QM - 2 ->
       s_ = log[hpos];
       if
       :: IS_FENCE(s_) && bC > 0 -> bC--                                                 /* 8 of them wait */
       :: IS_FENCE(s_) -> if :: (!owes && !(reg && !hact)) || HAS(NO_HOLE) -> push(s_) :: else fi
       :: !IS_FENCE(s_) ->
          if :: reg && hfrom != NONE && hpos >= hfrom -> if :: owes -> push(GAPM) :: else fi; push(s_) :: else fi
       fi;
       hpos++ }
  :: d_step { !dec && late && conn && wl < QM - 2 -> late = 0; make_status(); push(t_); skip } /* the ill one was written */
  :: d_step { !dec && hproc && hs && hcut && hpos >= hcutL && hact && conn -> push(CUTACK); hcut = 0 }
  :: d_step { !dec && START == 1 && hproc && !hdrain && hs && hact -> hdrain = 1; push_status(); skip }
  :: d_step { !dec && hproc && bK > 0 -> wl = 0; die(); skip }                  /* what was unsent is lost */
  :: d_step { !dec && hproc && bK > 0 -> die(); skip }                          /* or was sent */
  :: d_step { !dec && !hproc -> hproc = 1 }
  :: d_step { !dec && !up && hproc && !conn && wl == 0 && !hdrain ->
       conn = 1; up = 1; told = 0; hl = 0; dr = 0; push_status(); dec = 1 }
  /* ---- the client reads what the hub sent */
  :: d_step { !dec && up && wl > 0 ->
       s_ = wq[0]; i_ = 1; do :: i_ < wl -> wq[i_-1] = wq[i_]; i_++ :: else -> break od; wl--; wq[wl] = 0;
       if
       :: s_ == CLOSEM -> hub_gone()
       :: IS_STATUS(s_) -> take_status()
       :: s_ == ACKM ->
          if :: unans > 0 -> unans--;
               if :: unans == 0 && at_hub -> hub_act = 1;
                     if :: ph == 1 && to == HUB -> fence_if_joined() :: else fi;
                     settle()
                  :: else fi
             :: else fi
       :: s_ == CUTACK -> if :: cut_on == HUB -> delivered = HUB; cut_on = 0; overlap = 0; settle() :: else fi
       :: IS_FENCE(s_) -> if :: ph == 2 && IS_MINE(s_, fid) -> passed(HUB) :: else fi
       :: s_ == GAPM -> take_gap()
       :: else -> route(s_, HUB)
       fi;
       dec = 1 }
  /* ---- its own session */
  :: d_step { !dec && own == 1 -> own = 2; opos = ll; ofrom = NONE; dec = 1 }
  :: d_step { !dec && own == 2 && ofrom == NONE && at_own -> ofrom = ll; oact = 1;
       if :: ph == 1 && to == OWN -> fence_if_joined() :: else fi; settle(); dec = 1 }
  :: d_step { !dec && own == 2 && opos < ll ->
       s_ = log[opos]; opos++;
       if
       :: IS_FENCE(s_) -> if :: ph == 2 && IS_MINE(s_, fid) -> passed(OWN)
                             :: cut_on == OWN && IS_MINE(s_, cut_id) ->
                                delivered = OWN; cut_on = 0; cut_id = 0; overlap = 0; settle()
                             :: else fi
       :: else -> if :: ofrom != NONE && opos > ofrom -> route(s_, OWN) :: else fi
       fi;
       dec = 1 }
  :: d_step { !dec && own == 2 && bO > 0 -> bO--; own = 1; forget_own(); side_lost(OWN); dec = 1 }
  /* ---- its timers */
  :: d_step { !dec && ph != 0 -> break_ho(); dec = 1 }   /* the hand-over's deadline */
  :: d_step { !dec && ph == 0 && cut_on == 0 && own == 2 && bHo > 0 && serving == HUB && up && told && hl && dr ->
       begin_ho(OWN); dec = 1 }
  :: d_step { !dec && ph == 0 && cut_on == 0 && own == 2 && bHo > 0 && serving == OWN && up && told && hl && !dr ->
       begin_ho(HUB); dec = 1 }
  :: QUIET -> assert(last == NEV || covered >= NEV); break
  od
}
