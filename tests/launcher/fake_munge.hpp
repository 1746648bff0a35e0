/// A munge without a daemon; processes load it as libmunge.so.2.
#pragma once

constexpr int kNoMunge = -2;
/// The user as whom this thread's requests reach the daemon; kNoMunge: there is none.
extern "C" constinit thread_local int mn_fake_munge_user;
