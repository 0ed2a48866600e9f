// One pull or import, from the node's request to the last layer. What is said to the node:
//   {"t":"progress","done","total","layers_done","layers"}
//   {"t":"digest","digest"}            -> {"known":bool}: nothing more to do
//   {"t":"layers","diff_ids":[...]}    -> {"missing":[bool...]}: the ones this job is to lay out
//   {"t":"opaque","layer":i,"path"}    path in base64: the node marks the folder
//   {"t":"implied","layer":i,"path"}   likewise: the node gives it the lower layers' owner and mode
//   {"t":"layer","layer":i,"bytes":n}  /job/layer-i is whole; the node takes it away
//   {"t":"done","digest","platform","diff_ids","config":{...}} | {"t":"failed","reason","message"}
// The request: {"kind":"pull","reference","mirror","plain_http","username","password"},
// {"kind":"tar"} (the archive is the second descriptor) or {"kind":"dir"} (/source), each with
// "bytes_max" and "entries_max".
#pragma once

#include "image/channel.h"

namespace image {

// Confines this program, serves the one request, tells its end. False when the job failed.
bool run_job(Channel& channel);

}  // namespace image
